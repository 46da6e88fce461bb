#include <fmt/format.h>

#include <algorithm>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  const Rows& all = evidence.rows("others-tolerances");
  std::vector<std::vector<std::string>> rows;
  std::size_t constants = 0, unfit = 0;
  bool ours_clean = true;
  for (const std::string& rule : values_of(all, "rule")) {
    std::size_t accusing = 0, cells = 0;
    double loosest = 0;
    for (const Row& row : where(all, {{"rule", rule}})) {
      ++cells;
      accusing += row.number("outside") > 0 ? 1 : 0;
      if (row["tolerance_over_largest_error"] != "-") {
        loosest = std::max(loosest, row.number("tolerance_over_largest_error"));
      }
    }
    if (rule.starts_with("plumb")) {
      ours_clean = ours_clean && accusing == 0;
    } else {
      ++constants;
      unfit += accusing > 0 || loosest > 1000 ? 1 : 0;
    }
    rows.push_back(
        {rule, fmt::format("{} of {}", accusing, cells), fmt::format("{:.3g}", loosest)});
  }
  return {unfit == constants && ours_clean ? Agreement::yes : Agreement::partly,
          fmt::format("{} of {} constants in use accuse a healthy operation or accept a thousand "
                      "times its largest error",
                      unfit, constants),
          {},
          table({"rule", "cells with a healthy element outside",
                 "tolerance over the largest healthy error, most"},
                rows)};
}

}  // namespace

extern const Claim b6_no_constant_fits{
    .id = "B6",
    .says =
        "No constant tolerance in use fits all operations, sizes and data; derived ones accuse none",
    .where = "goes beyond: what the paper's readers use today",
    .source = Source::ourselves,
    .published = "none",
    .reading =
        "A constant fits where it accuses nobody and accepts at most 1000 times what is healthy. Of derived "
        "ones only the first is asked: a worst case is far from what happens (B16).",
    .rows = {{"others-tolerances", " 256 zero-mean "}},
    .picture = "others-tolerances.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro
