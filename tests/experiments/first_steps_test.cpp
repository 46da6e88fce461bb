// Are healthy runs of the first steps left alone? All tokens are still alike there, so that they
// round alike, and their errors add up.
#include <gtest/gtest.h>

#include "model/data/text.hpp"
#include "model/run/training.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/check.hpp"

namespace plumb::first_steps_test {
namespace {

class FirstSteps : public testing::TestWithParam<const char*> {};

TEST_P(FirstSteps, AcquitHealthyRuns) {
  int accused = 0;
  const auto seeds = static_cast<std::uint64_t>(effort(6));
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    Config config = config_of(GetParam());
    config.seed = seed;
    const Start first = start_of(config, find_recipe("bf16"), parse_layout("tp2"), default_text());
    const Start fourth = trained(first, default_text(), 4, [](int, double) {});
    CheckOptions options;
    options.seed = seed;
    const Verdict v = check(run_reference(fourth), run_candidate(fourth).trace, options);
    accused += v.findings.empty() ? 0 : 1;
  }
  // It was 4 of 6 with an amount for each element; at 1e-2 one has a chance of 0.06.
  EXPECT_EQ(accused, 0);
}

INSTANTIATE_TEST_SUITE_P(Of, FirstSteps, testing::Values("gpt", "llama"),
                         [](const auto& family) { return std::string(family.param); });

}  // namespace
}  // namespace plumb::first_steps_test
