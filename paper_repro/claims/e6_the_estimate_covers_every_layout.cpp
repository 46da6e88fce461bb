#include <fmt/format.h>

#include <algorithm>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  std::vector<std::vector<std::string>> rows;
  Share accused;
  bool covered = true;
  for (const Depth& depth : depths(evidence, "", 32)) {
    std::vector<double> ratios;
    Share here;
    for (const Row& row : depth.rows) {
      for (const std::string quantity : {"forward", "gradient", "weights"}) {
        const double seen = row.number(quantity == "weights" ? "weights_gradient" : quantity);
        ratios.push_back(seen / row.number(quantity + "_estimate"));
      }
      if (row["layer"] != "1") continue;
      ++here.of;
      here.hits += row.number("perturbation_findings") > 0 ? 1 : 0;
    }
    std::ranges::sort(ratios);
    covered = covered && ratios.back() <= 2;
    accused.hits += here.hits;
    accused.of += here.of;
    rows.push_back({depth.layout, depth.family, depth.weights,
                    fmt::format("{:.2f}", ratios[ratios.size() / 2]),
                    fmt::format("{:.2f}", ratios.back()),
                    fmt::format("{} of {}", here.hits, here.of)});
  }
  return {covered ? Agreement::yes : Agreement::partly,
          fmt::format("each layer's distance is {} twice the estimate in every layout; single "
                      "tensors are not",
                      covered ? "within" : "not within"),
          accused,
          table({"layout", "family", "weights", "distance over estimate, median layer",
                 "largest layer", "healthy runs with a tensor beyond twice the estimate"},
                rows)};
}

}  // namespace

extern const Claim e6_the_estimate_covers_every_layout{
    .id = "E6",
    .says = "The distance that a perturbed input makes covers that of a right run in every layout",
    .where = "the method of version 2",
    .source = Source::inferred,
    .published = "judged effective",
    .reading =
        "Rule perturbation: one draw, every element of the embedding's output moved by one epsilon "
        "up or down, tolerance twice the response. The paper's margin, draws and place are not "
        "known. 32 layers, BF16; layers as whole vectors, then tensor by tensor. Only tp2 tries it: "
        "the other layouts hardly differ from one device.",
    .rows = {{"error-growth", "gpt random bf16 .* 32 1 "}},
    .picture = "error-growth.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro
