#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  std::vector<std::vector<std::string>> rows;
  Share accused;
  double worst = 0;
  for (const Depth& depth : depths(evidence, "", 32)) {
    double largest = 0;
    for (const std::string& seed : values_of(depth.rows, "seed")) {
      double of_run = 0;
      for (const Row& row : where(depth.rows, {{"seed", seed}})) {
        of_run = std::max(of_run, row.number("worst_weight"));
      }
      ++accused.of;
      accused.hits += of_run > 4 * std::pow(1.03, 33) * 0x1p-7 ? 1 : 0;
      largest = std::max(largest, of_run);
    }
    worst = std::max(worst, largest);
    rows.push_back(
        {depth.layout, depth.family, depth.weights, fmt::format("{:.2f}", largest / 0x1p-7)});
  }
  return {accused.hits == 0 ? Agreement::yes : Agreement::partly,
          fmt::format("the worst weight gradient is off by {:.1f} epsilon", worst / 0x1p-7),
          accused,
          table({"layout", "family", "weights", "worst weight gradient, in epsilon"}, rows)};
}

}  // namespace

extern const Claim e13_the_adopters_test_passes{
    .id = "E13",
    .says =
        "Every weight gradient of 32 layers is within 4 * 1.03^33 * 2^-7 = 10.6 epsilon of one "
        "device's, in DP2, TP2, CP2 and PP2",
    .where = "Megatron-LM's gradient comparison test, 74bec5be; it quotes theorem 5.3",
    .source = Source::adopter,
    .published = "passes in each layout; an issue of BioNeMo reports that DP fails",
    .reading =
        "One step of 32 layers, BF16, and tp2 with sequence parallelism beside the four. Reduced "
        "gradients of the layers' weights, biases and norms; width 64 where theirs is 3072. Only tp2 "
        "tries the bound: the others differ from one device by less than a fifth of an epsilon. That "
        "dp2 fails elsewhere is not seen here. BioNeMo's copy of the test has 5 in place of 4: what "
        "is within 10.6 epsilon is within its 13.3, too. Trained runs of 24 layers reach the bound: "
        "E13b.",
    .rows = {{"error-growth", "gpt random bf16 .* 32 1 "}},
    .picture = "error-growth.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro
