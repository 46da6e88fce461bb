// An evaluation as promised never leaves its deterministic tolerance, by FP64 and by MPFR; and the
// largest error of many comes near enough to it that the tolerance is worth having.
#include <gtest/gtest.h>

#include "bounds/examples/example.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::soundness_test {
namespace {

class EveryOperation : public testing::TestWithParam<std::string> {};

TEST_P(EveryOperation, StaysWithinItsDeterministicTolerance) {
  const int draws = effort(120);
  double nearest = 0, largest_bound = 0;
  for (const char* kind : input_kinds) {
    Comparison verdict;
    for (int seed = 1; seed <= draws; ++seed) {
      Draw draw(kind, static_cast<unsigned>(seed));
      const Example example = example_of(GetParam(), draw);
      const std::size_t before = verdict.violations;
      judge(example, evaluation_of(example), verdict);
      if (const auto t = tolerance_of(example)) {
        for (const Matrix<double>& bound : t->bound) {
          for (const double b : bound.values) largest_bound = std::max(largest_bound, b);
        }
      }
      EXPECT_EQ(verdict.violations, before)
          << GetParam() << ", " << kind << ", seed " << seed << ": ratio " << verdict.largest_ratio;
    }
    EXPECT_LE(verdict.refusals, static_cast<std::size_t>(draws) / 4) << kind << verdict.refusal;
    RecordProperty(kind, std::to_string(verdict.largest_ratio));
    nearest = std::max(nearest, verdict.largest_ratio);
  }
  // A bound a hundred times wider would be a hundred times farther off. One of 0 can be no nearer.
  if (largest_bound > 0) {
    EXPECT_GT(nearest, 0.02) << GetParam();
  }
}

// The long version is the experiment soundness.
class AgainstMpfr : public testing::TestWithParam<std::string> {};

TEST_P(AgainstMpfr, StaysWithinItsDeterministicTolerance) {
  std::size_t elements = 0;
  for (const char* kind : input_kinds) {
    for (int seed = 1; seed <= effort(3); ++seed) {
      Draw draw(kind, 3000 + static_cast<unsigned>(seed));
      const Example e = example_of(GetParam(), draw);
      const auto tolerance = tolerance_of(e);
      if (!tolerance) continue;
      const auto computed = evaluation_of(e);
      const auto truth = truth_of(e);
      for (std::size_t o = 0; o < computed.size(); ++o) {
        for (std::size_t i = 0; i < computed[o].size(); ++i, ++elements) {
          // FP64 may underflow on the way to a value: nothing is said of what lies below 2^-900.
          ASSERT_LE(truth[o].values[i].distance_from(static_cast<double>(computed[o].values[i])),
                    tolerance->bound[o].values[i] + 0x1p-900)
              << kind << ", seed " << seed << ", element " << i;
        }
      }
    }
  }
  EXPECT_GE(elements, input_kinds.size());  // one of each kind at least
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const Operation* operation : all_operations()) names.emplace_back(operation->id);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Bounds, AgainstMpfr, testing::ValuesIn(all_names()),
                         [](const auto& parameter) { return parameter.param; });
INSTANTIATE_TEST_SUITE_P(Bounds, EveryOperation, testing::ValuesIn(all_names()),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace plumb::soundness_test
