#include <fmt/format.h>

#include <map>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"
#include "trace/levels.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  std::map<std::string, Share> by_layout;
  Share accused;
  for (const Row& row : evidence.rows("healthy-layouts")) {
    Share& here = by_layout[row["layout"]];
    for (Share* share : {&here, &accused}) {
      ++share->of;
      share->hits += row.number("accused") > 0 ? 1 : 0;
    }
  }
  const Interval rate = binomial_interval(accused.hits, accused.of, 0.95);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [layout, share] : by_layout) {
    rows.push_back({layout, fmt::format("{} of {}", share.hits, share.of)});
  }
  return {rate.low <= 0.01 ? Agreement::yes : Agreement::no,
          fmt::format("{} of {} healthy runs in {} layouts accused, at a level of 0.01",
                      accused.hits, accused.of, by_layout.size()),
          accused, table({"layout", "healthy runs accused"}, rows)};
}

}  // namespace

extern const Claim b11_no_layout_is_accused{
    .id = "B11",
    .says = "The level holds in every axis of parallelism and in products of them",
    .where = "goes beyond: the paper names no rate in any layout",
    .source = Source::ourselves,
    .published = "none",
    .reading = "The interval of the rate over all runs reaches down to 0.01 or below it.",
    .rows = {{"healthy-layouts", "gpt bf16 random (tp2|dp2|cp2|pp2) 1$"}},
    .picture = "healthy-layouts.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro
