#include <fmt/format.h>

#include <algorithm>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

std::string interval(const Growth& growth) {
  return fmt::format("{:.4f} [{:.4f}, {:.4f}]", growth.c, growth.low, growth.high);
}

Answer judge(const Evidence& evidence) {
  std::vector<std::vector<std::string>> rows;
  double largest = 0, smallest = 1e300;
  double of_deep = 0;  // the largest of 24 layers and more
  std::size_t near = 0, all = 0;
  for (const Depth& depth : depths(evidence, "tp2")) {
    const Growth stream = growth_of(depth, "gradient", Towards::input);
    const Growth weights = growth_of(depth, "weights_gradient", Towards::input);
    largest = std::max(largest, weights.c);
    smallest = std::min(smallest, weights.c);
    near += weights.c <= 1.05 ? 1 : 0;
    if (depth.layers >= 24) of_deep = std::max(of_deep, weights.c);
    ++all;
    rows.push_back({depth.family, depth.weights, depth.recipe, std::to_string(depth.layers),
                    interval(weights), interval(stream)});
  }
  std::ranges::stable_sort(rows, {}, [](const auto& row) { return std::stoi(row[3]); });
  return {near == all ? Agreement::yes : Agreement::partly,
          fmt::format(
              "C of weight gradients is {:.3f} to {:.3f}, at most 1.05 in {} of {} cells{}",
              smallest, largest, near, all,
              of_deep > 0 ? fmt::format("; of 24 layers and more at most {:.3f}", of_deep) : ""),
          {},
          table({"family", "weights", "recipe", "layers", "C of weight gradients, 95 %",
                 "C of the residual stream's gradient"},
                rows)};
}

}  // namespace

extern const Claim e5_gradients_grow_towards_the_input{
    .id = "E5",
    .says = "The relative error of a gradient at layer l of L is O(C^(L+1-l) eps), C close to 1",
    .where = "theorem 5.3, as an adopter quotes it",
    .source = Source::adopter,
    .published = "C = 1.03; 1.01 to 1.05 called reasonable",
    .reading =
        "C is fitted to the distance between tp2 and one device, by least squares of its logarithm "
        "over L + 1 - l, for a layer's weight gradients as one vector. It agrees where C is at most "
        "1.05; a C below 1 lies within the O().",
    .rows = {{"error-growth", "gpt .* tp2 (4|12) 1 "}},
    .picture = "error-growth.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro
