// Probabilistic tolerances are kept with their probability and are tighter than the worst case;
// moments have the size of the errors; both say so where they do not apply.
#include <gtest/gtest.h>

#include "bounds/examples/example.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::chance_test {
namespace {

const std::vector<std::string> by_chance{"gemm",
                                         "add",
                                         "dropout",
                                         "sum",
                                         "column_sum",
                                         "embedding",
                                         "embedding_grad",
                                         "rmsnorm",
                                         "rmsnorm_grad",
                                         "rmsnorm_wgrad",
                                         "layernorm",
                                         "layernorm_grad",
                                         "layernorm_wgrad",
                                         "rope",
                                         "shared_key_grad",
                                         "cast",
                                         "softmax",
                                         "softmax_grad",
                                         "log_sum_exp",
                                         "softmax_merge",
                                         "quantize",
                                         "quantize_blocks",
                                         "gelu",
                                         "gelu_grad",
                                         "gelu_erf",
                                         "gelu_erf_grad",
                                         "silu",
                                         "silu_grad",
                                         "swiglu",
                                         "swiglu_grad",
                                         "cross_entropy",
                                         "cross_entropy_grad",
                                         "grad_norm",
                                         "clip",
                                         "scale",
                                         "adam",
                                         "router",
                                         "router_grad",
                                         "expert_bias",
                                         "balance_loss",
                                         "z_loss",
                                         "dispatch_grad",
                                         "grouped_gemm",
                                         "grouped_wgrad",
                                         "grouped_column_sum",
                                         "combine",
                                         "combine_grad",
                                         "combine_weight_grad"};

class ByChance : public testing::TestWithParam<std::string> {};

TEST_P(ByChance, AProbabilisticToleranceIsKeptAndNeverWider) {
  Comparison verdict;
  const int draws = effort(60);
  for (const char* kind : {"plain", "cancelling", "spread", "positive"}) {
    for (int seed = 1; seed <= draws; ++seed) {
      Draw draw(kind, 1000 + static_cast<unsigned>(seed));
      const Example e = example_of(GetParam(), draw);
      judge(e, evaluation_of(e), verdict, Mode::probabilistic, 1e-3);
      const auto likely = tolerance_of(e, Mode::probabilistic, 1e-3);
      const auto worst = tolerance_of(e);
      if (!likely || !worst) continue;
      EXPECT_EQ(likely->delta, 1e-3);
      for (std::size_t o = 0; o < worst->bound.size(); ++o) {
        for (std::size_t i = 0; i < worst->bound[o].size(); ++i) {
          ASSERT_LE(likely->bound[o].values[i], worst->bound[o].values[i]);
        }
      }
    }
  }
  // 240 tensors at 1e-3 each, by a bound that is far from attained.
  EXPECT_EQ(verdict.violations, 0U);
}

TEST_P(ByChance, MomentsAreTheSizeOfTheErrors) {
  // A clip has one element per draw: of 80 evenly spread errors the RMS scatters by
  // sqrt(0.8 / 80) / 2 = 0.05, and 0.2 is four of those. Checked builds may not draw fewer.
  const int draws = std::max(80, effort(80));
  Comparison all;
  for (int seed = 1; seed <= draws; ++seed) {
    Draw draw("plain", 2000 + static_cast<unsigned>(seed));
    const Example e = example_of(GetParam(), draw);
    judge(e, evaluation_of(e), all, Mode::moments);
  }
  ASSERT_LT(all.refusals * 10, static_cast<std::size_t>(draws)) << all.refusal;
  EXPECT_EQ(all.violations, 0U);
  EXPECT_GT(all.rms(), 0.8) << GetParam();
  EXPECT_LT(all.rms(), 1.2) << GetParam();
  RecordProperty("rms", std::to_string(all.rms()));
}

INSTANTIATE_TEST_SUITE_P(Bounds, ByChance, testing::ValuesIn(by_chance),
                         [](const auto& parameter) { return parameter.param; });

// One gemm with K terms in FP32, all of it.
Example long_gemm(std::string_view kind, std::size_t k) {
  Draw draw(kind, 17);
  return {"gemm",
          {draw.matrix(8, k), draw.matrix(k, 16)},
          {{"transpose_a", 0}, {"transpose_b", 0}},
          {1, fp32, fp32}};
}

TEST(Probabilistic, LongChainsAreFarTighterThanTheWorstCase) {
  for (const char* kind : {"plain", "positive"}) {
    const Example e = long_gemm(kind, 4096);
    Comparison worst;
    Comparison likely;
    Comparison moments;
    const auto outputs = evaluation_of(e);
    judge(e, outputs, worst);
    judge(e, outputs, likely, Mode::probabilistic, 1e-6);
    judge(e, outputs, moments, Mode::moments);
    EXPECT_EQ(likely.violations, 0U);
    // theory.md P4: the norm of the partial sums is near the largest error, K u is not.
    EXPECT_GT(likely.largest_ratio, 1 / 10.0) << kind;
    EXPECT_LT(worst.largest_ratio, likely.largest_ratio / 5) << kind;
    EXPECT_NEAR(moments.rms(), 1, 0.25) << kind;
    RecordProperty(std::string(kind) + "_likely", std::to_string(likely.largest_ratio));
    RecordProperty(std::string(kind) + "_rms", std::to_string(moments.rms()));
  }
}

TEST(Probabilistic, RepeatedDataGetTheWorstCaseAndNoMoments) {
  for (const char* id : {"gemm", "column_sum"}) {
    Example e{id,
              {Matrix<double>(40, 40, 0.1F), Matrix<double>(40, 40, 0.3F)},
              {{"transpose_a", 0}, {"transpose_b", 0}},
              {1, fp32, fp32}};
    if (id == std::string("column_sum")) e.inputs.pop_back();
    EXPECT_EQ(tolerance_of(e, Mode::probabilistic)->bound[0], tolerance_of(e)->bound[0]);
    const auto moments = tolerance_of(e, Mode::moments);
    ASSERT_FALSE(moments);
    EXPECT_EQ(moments.error().why, Why::conflict);
  }
}

// k^2 of odd k ends in 001: where a sum drops three bits of its terms, half of them round down by
// an eighth of its spacing. So errors of such sums grow with n, not with its root.
TEST(Probabilistic, SquaresOfShortNumbersDoNotRoundIndependently) {
  const auto mean_over_deviation = [](const Format& format) {
    constexpr std::size_t sums = 200, n = 4096;
    Draw draw("plain", 4);
    double mean = 0, squares = 0;
    for (std::size_t i = 0; i < sums; ++i) {
      float chain = 0;
      double exact = 0;
      for (std::size_t k = 0; k < n; ++k) {
        const double x = round_to(0.5 + draw.uniform() / 2, format);
        chain += static_cast<float>(x) * static_cast<float>(x);
        exact += x * x;
      }
      const double error = static_cast<double>(chain) - exact;
      mean += error / sums;
      squares += error * error / sums;
    }
    return std::fabs(mean) / std::sqrt(squares - mean * mean);
  };
  EXPECT_GT(mean_over_deviation(bf16), 3);
  EXPECT_LT(mean_over_deviation(fp32), 0.5);

  Draw draw("positive", 1);
  Example e{
      "rmsnorm", {draw.matrix(40, 1024, bf16), draw.matrix(1024, 1, bf16)}, {{"eps", 1e-5}}, {}};
  EXPECT_EQ(tolerance_of(e, Mode::probabilistic)->bound[0], tolerance_of(e)->bound[0]);
  // Moments foretell them; ten deviations off is what they were where this was taken for chance.
  for (const Format& format : {bf16, fp32}) {
    e.inputs[0] = draw.matrix(40, 1024, format);
    Comparison seen;
    judge(e, evaluation_of(e), seen, Mode::moments);
    EXPECT_EQ(seen.refusals + seen.violations, 0U);
    EXPECT_LT(seen.rms(), 1.3) << format.name;
    EXPECT_LT(seen.largest_ratio, 6) << format.name;
  }
}

// Sums that stagnate (theory.md P8): a large number, and then small ones that vanish one by one,
// all different. Nothing about them has a mean of zero.
TEST(Probabilistic, CoversSumsThatStagnate) {
  Draw draw("plain", 8);
  constexpr std::size_t n = 2000;
  Matrix<double> small(n, 1);
  for (double& x : small.values) x = round_to((0.1 + 0.3 * draw.uniform()) * 0x1p-11, fp32);
  small.values[0] = 0x1p12;
  for (const char* id : {"gemm", "column_sum"}) {
    Example e{id, {small}, {{"transpose_a", 1}, {"transpose_b", 0}}, {1, fp32, fp32}};
    if (id == std::string("gemm")) {
      e.inputs.push_back(Matrix<double>(n, 1));
      for (double& x : e.inputs[1].values) x = 1 + std::floor(8 * draw.uniform()) * 0x1p-8;
      e.inputs[1].values[0] = 1;
    }
    Comparison seen;
    judge(e, evaluation_of(e), seen, Mode::probabilistic, 1e-3);
    EXPECT_EQ(seen.violations + seen.refusals, 0U) << id;
    EXPECT_GT(seen.largest_ratio, 0.05) << id;
    Comparison moments;
    judge(e, evaluation_of(e), moments, Mode::moments);
    EXPECT_LE(moments.largest_ratio, 3) << id;
    EXPECT_EQ(moments.violations, 0U) << id;
  }
}

TEST(Probabilistic, IsRefusedByNameWhereNotDerived) {
  for (const char* id : {"attention", "attention_grad"}) {
    Draw draw("plain", 1);
    Example e = example_of(id, draw);
    const auto tolerance = tolerance_of(e, Mode::probabilistic);
    ASSERT_FALSE(tolerance);
    EXPECT_EQ(tolerance.error().why, Why::unsupported);
    EXPECT_TRUE(tolerance_of(e, Mode::moments));
    e.attributes["sequence"] = 257;
    EXPECT_EQ(tolerance_of(e, Mode::moments).error().why, Why::unsupported);
  }
  Draw draw("plain", 1);
  const Example e = example_of("add", draw);
  EXPECT_THROW((void)tolerance_of(e, Mode::probabilistic, 0), std::invalid_argument);
}

}  // namespace
}  // namespace plumb::chance_test
