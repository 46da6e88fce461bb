#include <fmt/format.h>

#include <algorithm>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  std::vector<std::vector<std::string>> rows;
  double least = 1e300, most = 0;
  for (const Depth& depth : depths(evidence, "tp2", 24)) {
    if (depth.recipe != "bf16") continue;
    for (const Row& row : depth.rows) {
      if (static_cast<int>(row.number("layer")) != depth.layers) continue;
      const double error = row.number("weights_gradient") / epsilon_of(depth.recipe);
      least = std::min(least, error);
      most = std::max(most, error);
      rows.push_back({depth.family, depth.weights, row["seed"], fmt::format("{:.2f}", error),
                      fmt::format("{:.2f}", row.number("worst_weight") / epsilon_of("bf16"))});
    }
  }
  if (rows.empty()) throw NotMeasured{"rows of error-growth of 24 layers in bf16"};
  return {least >= 0.25 && most <= 1.4 ? Agreement::yes : Agreement::no,
          fmt::format("{:.2f} to {:.2f} epsilon", least, most),
          {},
          table({"family", "weights", "seed", "all weight gradients of layer 24, in epsilon",
                 "the worst of them"},
                rows)};
}

}  // namespace

extern const Claim e5b_last_layer_is_half_an_epsilon{
    .id = "E5b",
    .says =
        "Weight gradients of the last layer of a right BF16 run are off by about half an epsilon",
    .where = "bug 13's report: two weights of layer 23 of 24, before the bug's first effect",
    .source = Source::artefact,
    .published = "0.6 and 0.7 epsilon",
    .reading =
        "Epsilon is 2^-7. Their width is 1024 and their layout cp2, ours 64 and tp2: agreement is "
        "within a factor of two of what is published.",
    .rows = {{"error-growth", "gpt random bf16 tp2 (24|128) 1 "}},
    .picture = "error-growth.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro
