#include <fmt/format.h>

#include "cli/verbs.hpp"
#include "trace/report/report.hpp"

namespace plumb {

void add_localize(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("localize", "which module is to blame? in dataflow order");
  static std::string reference, candidate;
  static CheckCommand command;
  verb->add_option("REF", reference, "trace of the reference")->required();
  verb->add_option("CAND", candidate, "trace of the candidate")->required();
  command.add_to(*verb);
  verb->callback([&chosen] {
    chosen = [] {
      const Verdict v = command.compare(reference, candidate);
      for (const std::string& file : command.reports) write_report(v, file);
      if (v.findings.empty()) {
        fmt::print("nothing to blame\n");
        return v.exit_code();
      }
      fmt::print("blamed: {}\nby: {}\n", v.blamed, v.blamed_by);
      fmt::print("first to differ: {}\n", v.findings.front().id);
      for (const Finding& f : v.findings) {
        if (f.statistic == "replay" || f.statistic == "structure") {
          fmt::print("wrong by itself: {} ({}): {}\n", f.id, f.statistic, f.detail);
        }
      }
      return v.exit_code();
    };
  });
}

}  // namespace plumb
