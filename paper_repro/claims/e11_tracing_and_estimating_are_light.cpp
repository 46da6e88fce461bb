#include <fmt/format.h>

#include <algorithm>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  std::vector<std::vector<std::string>> rows;
  double most = 0, ours = 0;
  for (const Row& row : evidence.rows("step-cost")) {
    const double all = 1 + row.number("estimate") + row.number("write") + row.number("compare");
    most = std::max(most, all);
    ours = std::max(ours, 1 + row.number("write") + row.number("twins_and_replay"));
    std::vector<std::string> cells{row["name"]};
    for (const char* column : {"estimate", "candidate", "write", "compare", "twins_and_replay",
                               "trace_bytes_over_state"}) {
      cells.push_back(fmt::format("{:.2f}", row.number(column)));
    }
    rows.push_back(cells);
  }
  return {
      most <= 10 ? Agreement::yes : Agreement::no,
      fmt::format("the paper's rule costs {:.1f} steps of one device at most, the default rules "
                  "{:.1f}; once, not in every step",
                  most, ours),
      {},
      table({"benchmark", "estimate, in reference steps", "candidate", "writing its trace",
             "comparing", "twins and replay instead", "bytes of a trace over the state's"},
            rows)};
}

}  // namespace

extern const Claim e11_tracing_and_estimating_are_light{
    .id = "E11",
    .says = "Tracing, estimating and checking are light: one iteration, few resources",
    .where = "title and abstract; no figure is at hand",
    .source = Source::abstract,
    .published = "lightweight",
    .reading =
        "Light is at most ten steps of the reference, all together: reference, perturbed reference, "
        "writing a trace of four ranks, comparing; the default rules twins and replay in place of the "
        "second and the last. The candidate's own step is made anyway. CPU time, ratios within one "
        "run.",
    .rows =
        {{"step-cost", "",
          "tests/bench/workflow.cpp: build/bench/bench_workflow --benchmark_format=csv >step-cost.csv"}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro
