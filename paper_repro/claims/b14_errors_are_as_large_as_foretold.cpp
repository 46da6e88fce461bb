#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  struct Range {
    double low = 1e300, high = 0;
    std::size_t cells = 0;
  };
  std::map<std::string, Range> by_operation;
  Range all;
  for (const Row& row : evidence.rows("moments")) {
    if (row["z_rms"] == "-") continue;
    const double z = row.number("z_rms");
    for (Range* range : {&by_operation[row["operation"]], &all}) {
      range->low = std::min(range->low, z);
      range->high = std::max(range->high, z);
      ++range->cells;
    }
  }
  if (all.cells == 0) throw NotMeasured{"rows of moments that were foretold"};
  std::vector<std::vector<std::string>> rows;
  for (const auto& [operation, range] : by_operation) {
    rows.push_back({operation, std::to_string(range.cells), fmt::format("{:.3f}", range.low),
                    fmt::format("{:.3f}", range.high)});
  }
  return {all.low >= 0.8 && all.high <= 1.25 ? Agreement::yes : Agreement::partly,
          fmt::format("{:.2f} to {:.2f} of what is foretold, in {} cells", all.low, all.high,
                      all.cells),
          {},
          table({"operation", "cells", "least", "most"}, rows)};
}

}  // namespace

extern const Claim b14_errors_are_as_large_as_foretold{
    .id = "B14",
    .says = "The size of an operation's error is foretold, not only bounded",
    .where = "goes beyond: no perturbed run is needed for one operation",
    .source = Source::ourselves,
    .published = "none",
    .reading =
        "Root mean square of error over foretold deviation within [0.8, 1.25] in every cell.",
    .rows = {{"moments", "gemm ieee "}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro
