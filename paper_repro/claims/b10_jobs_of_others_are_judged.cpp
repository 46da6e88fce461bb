#include <fmt/format.h>

#include <algorithm>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  const Rows& all = evidence.rows("foreign-jobs");
  std::vector<std::vector<std::string>> rows;
  Share blamed, accused, flat;
  std::size_t undecided = 0;
  for (const std::string& example : values_of(all, "example")) {
    for (const std::string weights : {"random", "trained"}) {
      Share right, healthy, by_flat;
      double least = 1, draws = 1;
      for (const Row& row : where(all, {{"example", example}, {"weights", weights}})) {
        const bool is_healthy = row.is("run", "healthy");
        Share& of = is_healthy ? healthy : right;
        ++of.of;
        of.hits += is_healthy ? row.is("exit_code", "1") : row.yes("right");
        undecided += is_healthy && row.is("exit_code", "3") ? 1 : 0;
        if (!is_healthy) {
          ++by_flat.of;
          by_flat.hits += row.yes("flat_found") ? 1 : 0;
          continue;
        }
        if (row.number("differ") < 20) continue;  // a share of few says little
        least = std::min(least, row.number("near"));
        draws = std::min(draws, row.number("draws_near"));
      }
      for (const auto& [sum, part] :
           {std::pair{&blamed, right}, {&accused, healthy}, {&flat, by_flat}}) {
        sum->hits += part.hits;
        sum->of += part.of;
      }
      rows.push_back({example, weights, fmt::format("{} of {}", right.hits, right.of),
                      fmt::format("{} of {}", by_flat.hits, by_flat.of),
                      fmt::format("{} of {}", healthy.hits, healthy.of),
                      fmt::format("{:.1f} %", 100 * least), fmt::format("{:.1f} %", 100 * draws)});
    }
  }
  return {
      blamed.hits == blamed.of ? Agreement::yes : Agreement::partly,
      fmt::format("{} of {} planted mistakes caught and blamed right, 8.29 % finds {}; {} of {} "
                  "healthy runs undecided",
                  blamed.hits, blamed.of, flat.hits, undecided, accused.of),
      accused,
      table({"program", "weights", "caught and blamed right", "found by 8.29 %",
             "healthy runs accused", "foretold within [0.8, 1.25], least", "a twin by the others"},
            rows)};
}

}  // namespace

extern const Claim b10_jobs_of_others_are_judged{
    .id = "B10",
    .says = "Jobs of PyTorch and Megatron are judged by twins made in their own framework",
    .where = "goes beyond: the paper's estimate is one perturbed run",
    .source = Source::ourselves,
    .published = "none",
    .reading =
        "Five programs on two Gloo processes, three mistakes each, FP32 and BF16, random weights and "
        "those of 300 steps on text.",
    .rows = {{"foreign-jobs", "",
              "examples/torch/run.py: run.py PLUMB FOLDER --rows foreign-jobs.csv"}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro
