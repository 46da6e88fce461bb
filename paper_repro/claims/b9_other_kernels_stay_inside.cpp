#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

struct Seen {
  double elements = 0, outside = 0, worst = 0;
};

Answer judge(const Evidence& evidence) {
  std::map<std::pair<std::string, std::string>, Seen> by_card;
  Seen all;
  for (const Row& row : evidence.rows("outsiders")) {
    if (!row["refused"].empty()) continue;
    Seen& seen = by_card[{row["library"] + " " + row["version"], row["card"]}];
    for (Seen* sum : {&seen, &all}) {
      sum->elements += row.number("elements");
      sum->outside += row.number("outside");
      sum->worst = std::max(sum->worst, row.number("worst_ratio"));
    }
  }
  if (all.elements == 0) throw NotMeasured{"rows of other people's kernels"};
  std::vector<std::vector<std::string>> rows;
  for (const auto& [which, seen] : by_card) {
    rows.push_back({which.first, which.second, fmt::format("{:.0f}", seen.elements),
                    fmt::format("{:.0f}", seen.outside), fmt::format("{:.3g}", seen.worst)});
  }
  return {all.outside == 0 ? Agreement::yes : Agreement::no,
          fmt::format("{:.0f} of {:.0f} elements, each held against the cards below, are outside",
                      all.outside, all.elements),
          {},
          table({"library", "card", "elements", "outside", "largest error over bound"}, rows)};
}

}  // namespace

extern const Claim b9_other_kernels_stay_inside{
    .id = "B9",
    .says =
        "Kernels that were not written here stay inside the bound of a card that says what they do",
    .where = "goes beyond: bounds for other people's kernels",
    .source = Source::ourselves,
    .published = "none",
    .reading = "numpy and PyTorch on a processor; a card of their own, and one that says nothing.",
    .rows = {{"outsiders", "", "experiments/outsiders/outsiders.py"}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro
