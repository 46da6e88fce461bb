#include <fmt/format.h>

#include "cli/verbs.hpp"
#include "trace/replay.hpp"

namespace plumb {

void add_replay(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand(
      "replay", "compute each operation again from the trace's own inputs; needs no reference");
  static std::string candidate;
  verb->add_option("CAND", candidate, "trace of the candidate")->required();
  verb->callback([&chosen] {
    chosen = [] {
      const Loaded c = load(candidate);
      if (!c.trace.graph) {
        throw Failure(candidate + " has no promise (graph.json), so nothing can be replayed");
      }
      const Replayed seen =
          replay(*c.trace.graph, c.merged.values, [](const std::string&) { return true; });
      std::size_t equal = 0;
      for (const auto& [id, ratio] : seen.ratios) equal += ratio == 0 ? 1 : 0;
      fmt::print(
          "{} tensors replayed, {} equal to the promise bit by bit, {} outside their local "
          "tolerance, {} not judged\n",
          seen.ratios.size(), equal, seen.findings.size(), seen.not_judged.size());
      for (const Finding& f : seen.findings) {
        fmt::print("  {} ratio {:.3g}: {}\n", f.id, f.ratio, f.detail);
      }
      if (!seen.findings.empty()) {
        fmt::print("blamed: {}\n", seen.findings.front().id);
        return 1;
      }
      return seen.ratios.empty() ? 3 : 0;
    };
  });
}

}  // namespace plumb
