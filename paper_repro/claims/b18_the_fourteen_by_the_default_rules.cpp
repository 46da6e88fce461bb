#include <fmt/format.h>

#include "paper_repro/claim.hpp"
#include "paper_repro/trials.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  const Rows& rows = evidence.rows("paper-bugs");
  const Trials ours = trials_of(rows, "twins,replay");
  const bool all = ours.bugs == 14 && ours.always == 14 && ours.blamed.hits == ours.blamed.of;
  return {all ? Agreement::yes : Agreement::partly,
          fmt::format("{} of {} trials detected, {} blamed on the exact tensor", ours.detected.hits,
                      ours.detected.of, ours.blamed.hits),
          ours.accused, table_by_bug(rows, {"twins,replay", "perturbation", "depth-law", "flat"})};
}

}  // namespace

extern const Claim b18_the_fourteen_by_the_default_rules{
    .id = "B18",
    .says = "The default rules detect the fourteen in every trial and blame the exact tensor",
    .where = "goes beyond E2: with a stated level of false alarms",
    .source = Source::ourselves,
    .published = "14 of 14, without a rate of false alarms",
    .reading = "Every family, BF16 and FP8, random and trained weights, five seeds; level 0.01.",
    .rows = {{"paper-bugs", "gpt bf16 random 1 "}},
    .picture = "paper-bugs.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro
