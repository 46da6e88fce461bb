#include "cli/verbs.hpp"

namespace plumb {

void add_check(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("check", "can rounding explain how two traces differ?");
  static std::string reference, candidate;
  static CheckCommand command;
  verb->add_option("REF", reference, "trace of the reference")->required();
  verb->add_option("CAND", candidate, "trace of the candidate")->required();
  command.add_to(*verb);
  verb->callback([&chosen] {
    chosen = [] {
      const Loaded r = load(reference);
      const Loaded c = load(candidate);
      Trace second;
      const Verdict verdict = check(r.trace, r.merged, c.trace, c.merged, command.ready(second));
      talk("");
      return command.told(verdict);
    };
  });
}

}  // namespace plumb
