#include <fmt/format.h>

#include <algorithm>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

struct Printed {
  const char* name;
  double published;  // in epsilon
};
constexpr Printed weights[] = {{"m0/layers.23.mlp.fc2.weight/wgrad", 0.7},
                               {"m0/layers.23.attn.proj.weight/wgrad", 0.6}};

Answer judge(const Evidence& evidence) {
  const Rows all =
      where(evidence.rows("case-studies"), {{"case", "bug-13"}, {"table", "gradients"}});
  std::vector<std::vector<std::string>> rows;
  double least = 1e300, most = 0;
  bool near = true;
  for (const Printed& weight : weights) {
    for (const Row& row : where(all, {{"name", weight.name}})) {
      const double error = row.number("healthy_error") / epsilon_of("bf16");
      near = near && error >= weight.published / 2 && error <= weight.published * 2;
      least = std::min(least, error);
      most = std::max(most, error);
      rows.push_back({weight.name, row["seed"], fmt::format("{:.2f}", error),
                      fmt::format("{:.1f}", weight.published)});
    }
  }
  return {near ? Agreement::yes : Agreement::no,
          fmt::format("{:.2f} to {:.2f} epsilon", least, most),
          {},
          table({"weight", "seed", "error of a healthy run, in epsilon", "published"}, rows)};
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
        "The same two weights, layout (cp2) and depth; width 128 where theirs is 1024, which has "
        "smaller errors. Epsilon is 2^-7; agreement is within a factor of two of each.",
    .rows = {{"case-studies", "bug-13 1 "}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro
