#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  struct Range {
    std::vector<double> loose;
    double nearest = 0;
  };
  std::map<std::pair<std::string, std::string>, Range> cells;
  double nearest = 0;
  for (const Row& row : evidence.rows("bound-tightness")) {
    if (row["bound_over_largest_error"] == "-") continue;
    const double loose = row.number("bound_over_largest_error");
    if (loose == 0) continue;  // no error at all
    Range& range = cells[{row["operation"], row["mode"]}];
    range.loose.push_back(loose);
    range.nearest = std::max(range.nearest, row.number("largest_error_over_bound"));
    if (row["mode"] == "deterministic") nearest = std::max(nearest, range.nearest);
  }
  if (cells.empty()) throw NotMeasured{"rows of bounds"};
  std::vector<std::vector<std::string>> rows;
  double moments = 0;
  for (auto& [which, range] : cells) {
    std::ranges::sort(range.loose);
    const double middle = range.loose[range.loose.size() / 2];
    if (which == std::pair<std::string, std::string>("gemm", "moments")) moments = middle;
    rows.push_back({which.first, which.second, fmt::format("{:.3g}", middle),
                    fmt::format("{:.3g}", range.loose.back()),
                    fmt::format("{:.2f}", range.nearest)});
  }
  if (moments == 0) throw NotMeasured{"rows of a product's moments"};
  return {moments <= 10 && nearest <= 1 ? Agreement::yes : Agreement::partly,
          fmt::format("a product's bound by moments is {:.2g} times the largest error, median",
                      moments),
          {},
          table({"operation", "mode", "bound over largest error, median", "most",
                 "largest error over bound"},
                rows)};
}

}  // namespace

extern const Claim b16_bounds_are_near_what_happens{
    .id = "B16",
    .says = "Derived bounds are near what happens: a product's within ten times its largest error",
    .where = "goes beyond",
    .source = Source::ourselves,
    .published = "none",
    .reading = "Median over sizes, data and machines; level 1e-9 an element.",
    .rows = {{"bound-tightness", "gemm .* 256 zero-mean ieee"}},
    .picture = "bound-tightness.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro
