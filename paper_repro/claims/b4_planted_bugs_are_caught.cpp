#include <fmt/format.h>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  const Rows& all = evidence.rows("detection-rate");
  std::vector<std::vector<std::string>> rows;
  Share ours, accused, theirs;
  for (const std::string& rule : values_of(all, "rule")) {
    Share detected, blamed, healthy;
    for (const Row& row : where(all, {{"rule", rule}})) {
      ++detected.of;
      // Structure is checked whatever the rule.
      detected.hits += row.yes("detected") || row.yes("structure") ? 1 : 0;
      blamed.hits += row.yes("blamed_right") ? 1 : 0;
      healthy.hits += row.yes("false_alarm") ? 1 : 0;
    }
    blamed.of = healthy.of = detected.of;
    if (rule == "twins,replay") {
      ours = detected;
      accused = healthy;
    }
    if (rule == "perturbation") theirs = detected;
    rows.push_back({rule, fmt::format("{} of {}", detected.hits, detected.of),
                    fmt::format("{}", blamed.hits), fmt::format("{}", healthy.hits)});
  }
  if (ours.of == 0) throw NotMeasured{"rows of the default rules"};
  return {
      ours.hits == ours.of ? Agreement::yes : Agreement::partly,
      fmt::format("{} of {} trials of {} bugs, by the paper's rule {}", ours.hits, ours.of,
                  values_of(all, "bug").size(), theirs.hits),
      accused,
      table({"rule", "detected, with structure", "blamed exactly", "healthy runs accused"}, rows)};
}

}  // namespace

extern const Claim b4_planted_bugs_are_caught{
    .id = "B4",
    .says = "Every planted bug of a catalogue is caught, at a stated level of false alarms",
    .where = "goes beyond: fourteen bugs, without a rate of false alarms",
    .source = Source::ourselves,
    .published = "14 of 14 (E2)",
    .reading =
        "Default rules; every family, random and trained weights, five seeds; the bugs that "
        "the catalogue had then.",
    .rows = {{"detection-rate", " gpt random .* 1 structure$"}},
    .picture = "detection-rate.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro
