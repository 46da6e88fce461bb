#include <fmt/format.h>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  const Rows& all = evidence.rows("blindness");
  std::vector<std::vector<std::string>> rows;
  std::size_t ours = 0, damages = 0, missed = 0, others = 0;
  Share accused;
  for (const std::string& rule : values_of(all, "rule")) {
    std::size_t passes = 0, of = 0;
    bool healthy = false;
    for (const Row& row : where(all, {{"rule", rule}})) {
      if (row["damage"] == "healthy") {
        healthy = row["verdict"] != "passes";
        continue;
      }
      ++of;
      passes += row["verdict"] == "passes" ? 1 : 0;
    }
    if (rule == "twins") {
      ours = passes;
      damages = of;
      accused = {healthy ? 1U : 0U, 1};
    } else if (!healthy) {
      ++others;
      missed += passes > 0 ? 1 : 0;
    }
    rows.push_back({rule, fmt::format("{} of {}", passes, of), healthy ? "yes" : "no"});
  }
  if (damages == 0) throw NotMeasured{"rows of twins"};
  return {ours == 0 && missed == others ? Agreement::yes : Agreement::partly,
          fmt::format("twins pass {} of {} damages; {} of {} other rules that spare the healthy "
                      "tensor pass some",
                      ours, damages, missed, others),
          accused, table({"rule", "damages passed", "accuses the healthy tensor"}, rows)};
}

}  // namespace

extern const Claim b15_rules_in_use_are_blind{
    .id = "B15",
    .says = "Rules in use pass damages of one tensor that twins do not",
    .where = "goes beyond: cosine, 8.29 %, relative Frobenius, assert_close",
    .source = Source::ourselves,
    .published = "none",
    .reading = "Seven damages of one tensor; a verdict of 'unsettled' is none of passing.",
    .rows = {{"blindness", "", "experiments/blindness/blindness.py"}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro
