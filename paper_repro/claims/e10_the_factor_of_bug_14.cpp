#include <fmt/format.h>

#include <algorithm>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  std::vector<std::vector<std::string>> lines;
  std::size_t norms = 0, doubled = 0, others = 0, same = 0;
  for (const Row& row :
       where(evidence.rows("case-studies"), {{"case", "bug-14"}, {"table", "gradients"}})) {
    const bool norm = row["name"].find("norm") != std::string::npos;
    const double factor = 1 + row.number("broken_from_healthy");
    (norm ? norms : others) += 1;
    doubled += norm && factor == 2 ? 1 : 0;
    same += !norm && factor == 1 ? 1 : 0;
    if (norm && row["seed"] == "1") {
      lines.push_back({row["name"], row["healthy_eps"], row["broken_error"], row["broken_eps"],
                       fmt::format("{:g}", factor)});
    }
  }
  if (norms == 0) throw NotMeasured{"rows of norms with bug 14"};
  return {
      doubled == norms && same == others ? Agreement::yes : Agreement::no,
      fmt::format("exactly twice in {} of {} gradients of norms, no bit changed in {} of {} others",
                  doubled, norms, same, others),
      {},
      table({"gradient", "healthy, epsilon", "with the bug, error", "epsilon",
             "1 + distance from the healthy one"},
            lines)};
}

}  // namespace

extern const Claim e10_the_factor_of_bug_14{
    .id = "E10",
    .says = "With bug 14 gradients of norms are exactly TP times too large, and all others right",
    .where = "the authors' report of bug 14 (Megatron-LM 1528): TP2, CP2, FP8",
    .source = Source::artefact,
    .published = "a factor of TP",
    .reading =
        "Their sizes, without the factor of 32 on rotary frequencies. The factor is 1 plus the "
        "distance from the healthy run of the same layout: 2 for a gradient that is doubled.",
    .rows = {{"case-studies", "bug-14 1 "}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro
