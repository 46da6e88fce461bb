#include <fmt/format.h>

#include <algorithm>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  std::vector<std::vector<std::string>> rows;
  double fastest = 0;
  std::size_t slow = 0, all = 0;
  for (const Depth& depth : depths(evidence, "tp2")) {
    const Growth growth = growth_of(depth, "forward", Towards::output);
    double last = 0, estimate = 0;
    for (const Row& row : depth.rows) {
      if (static_cast<int>(row.number("layer")) != depth.layers) continue;
      last = std::max(last, row.number("forward"));
      estimate = std::max(estimate, row.number("forward_estimate"));
    }
    const double unit = epsilon_of(depth.recipe);
    fastest = std::max(fastest, growth.c);
    slow += growth.c <= 1.05 ? 1 : 0;
    ++all;
    rows.push_back({depth.family, depth.weights, depth.recipe, std::to_string(depth.layers),
                    fmt::format("{:.4f} [{:.4f}, {:.4f}]", growth.c, growth.low, growth.high),
                    fmt::format("{:.2f}", last / unit), fmt::format("{:.2f}", estimate / unit)});
  }
  return {
      slow == all ? Agreement::yes : Agreement::partly,
      fmt::format("at most {:.3f} a layer in {} of {} cells of 4 to 128 layers (fastest: {:.3f})",
                  1.05, slow, all, fastest),
      {},
      table({"family", "weights", "recipe", "layers", "growth a layer, 95 %",
             "last layer, in epsilon", "the paper's estimate there"},
            rows)};
}

}  // namespace

extern const Claim e4_activations_grow_little{
    .id = "E4",
    .says = "Errors of activations of a right run grow little with depth; none blows up",
    .where = "GPT of 24 and of 128 layers",
    .source = Source::review,
    .published = "small growth, no blow-up",
    .reading =
        "Distance of the residual stream behind each layer between tp2 and one device. Little is a "
        "factor of at most 1.05 a layer, the largest that the adopter of the paper's theorem calls "
        "reasonable.",
    .rows = {{"error-growth", "gpt .* tp2 (4|12) 1 "}},
    .picture = "error-growth.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro
