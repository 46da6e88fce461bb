#include "cli/verbs.hpp"

namespace plumb::cli {

void add_check(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("check", "can rounding explain how two traces differ?");
  static std::string reference, candidate;
  static CheckCommand command;
  verb->add_option("REF", reference,
                   "trace of the reference, or a run of which every step is traced")
      ->required();
  verb->add_option("CAND", candidate, "trace of the candidate, or such a run (--resync)")
      ->required();
  command.add_to(*verb);
  add_placement(*verb, command.placement);
  verb->footer(verdict_codes);
  verb->callback(
      [&chosen] { chosen = [] { return command.told(command.compare(reference, candidate)); }; });
}

}  // namespace plumb::cli
