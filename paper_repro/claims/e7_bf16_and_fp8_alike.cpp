#include <fmt/format.h>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"
#include "paper_repro/trials.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  std::vector<std::vector<std::string>> lines;
  Share accused;
  bool all = true;
  std::string ours;
  for (const std::string recipe : {"bf16", "fp8"}) {
    Rows rows;
    for (const Row& row : evidence.rows("paper-bugs")) {
      if (row["recipe"].starts_with(recipe)) rows.push_back(row);
    }
    for (const std::string rule : {"perturbation", "twins,replay"}) {
      const Trials seen = trials_of(rows, rule);
      lines.push_back({recipe, rule, fmt::format("{} of {}", seen.detected.hits, seen.detected.of),
                       std::to_string(seen.blamed.hits),
                       fmt::format("{} of {}", seen.accused.hits, seen.accused.of)});
      if (rule != "perturbation") continue;
      all = all && seen.always == seen.bugs;
      accused.hits += seen.accused.hits;
      accused.of += seen.accused.of;
      ours += fmt::format("{}{}: {} of {} bugs in every trial", ours.empty() ? "" : "; ", recipe,
                          seen.always, seen.bugs);
    }
  }
  return {all ? Agreement::yes : Agreement::partly, ours, accused,
          table({"recipes", "rule", "detected", "blamed exactly", "healthy runs accused"}, lines)};
}

}  // namespace

extern const Claim e7_bf16_and_fp8_alike{
    .id = "E7",
    .says = "The method is effective in BF16 and in FP8",
    .where = "abstract",
    .source = Source::abstract,
    .published = "effective in both",
    .reading =
        "Effective is every bug in every trial, by the paper's rule and structure. FP8 is "
        "fp8-delayed and the recipe that a card asks for.",
    .rows = {{"paper-bugs", "gpt (bf16|fp8-delayed) random 1 "}},
    .picture = "paper-bugs.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro
