#include <fmt/format.h>

#include <algorithm>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  std::vector<std::vector<std::string>> rows;
  Share accused;
  for (const Depth& depth : depths(evidence, "tp2")) {
    if (depth.recipe == "fp32" || depth.recipe == "fp16") continue;
    double worst = 0, findings = 0;
    std::size_t runs = 0, flagged = 0;
    for (const Row& row : depth.rows) {
      worst = std::max(worst, row.number("worst_weight"));
      if (row["layer"] != "1") continue;
      ++runs;
      flagged += row.number("depth_law_findings") > 0 ? 1 : 0;
      findings = std::max(findings, row.number("depth_law_findings"));
    }
    if (depth.recipe == "fp8-delayed") {
      accused.hits += flagged;
      accused.of += runs;
    }
    rows.push_back({depth.recipe, depth.family, depth.weights, std::to_string(depth.layers),
                    fmt::format("{:.1f}", worst / 0x1p-7), fmt::format("{} of {}", flagged, runs),
                    fmt::format("{:.0f}", findings)});
  }
  if (accused.of == 0) throw NotMeasured{"rows of error-growth in fp8-delayed"};
  return {accused.hits == 0               ? Agreement::yes
          : accused.hits < accused.of / 2 ? Agreement::partly
                                          : Agreement::no,
          fmt::format("tensors of right FP8 runs lie beyond the law in {} of {} runs", accused.hits,
                      accused.of),
          accused,
          table({"recipe", "family", "weights", "layers", "worst weight gradient, in epsilon",
                 "healthy runs with a tensor beyond the law", "such tensors, most"},
                rows)};
}

}  // namespace

extern const Claim e13b_the_adopters_law_holds_in_fp8{
    .id = "E13b",
    .says = "The law 4 * 1.03^(L+1-l) * 2^-7 holds in FP8 with the epsilon of BF16",
    .where = "Megatron-LM's gradient comparison test, 74bec5be",
    .source = Source::adopter,
    .published = "one epsilon for both",
    .reading =
        "The rule depth-law of plumb check on every tensor up to the reduced gradients, with the "
        "model's own L; the adopter judges weight gradients, whose worst stands beside.",
    .rows = {{"error-growth", "gpt .* tp2 (4|12) 1 "}},
    .picture = "error-growth.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro
