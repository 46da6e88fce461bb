// Does a tolerance notice what it must? Each term is needed, and a wrong evaluation leaves it.
#include <gtest/gtest.h>
#include <algorithm>

#include "bounds/examples/example.hpp"
#include "number/blocks.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::sharpness_test {
namespace {

// Elements outside the tolerance of `promised` when evaluated as `ran`.
Comparison evaluated_as(const Example& promised, const Evaluation& ran) {
  Example wrong = promised;
  wrong.how = ran;
  Comparison verdict;
  judge(promised, evaluation_of(wrong), verdict);
  return verdict;
}

Example gemm_of(std::string_view kind, std::size_t k, const Evaluation& how, unsigned seed = 3,
                const Format& in = bf16) {
  Draw draw(kind, seed);
  return {"gemm",
          {draw.matrix(16, k, in), draw.matrix(k, 32, in)},
          {{"transpose_a", 0}, {"transpose_b", 0}},
          how};
}

TEST(Sharpness, ANarrowWireWhereAWideOneWasPromisedIsSeen) {
  for (const Format& output : {fp32, bf16}) {
    for (const int parts : {2, 4, 8}) {
      const Example e = gemm_of("plain", 256, {parts, fp32, output});
      EXPECT_EQ(evaluated_as(e, e.how).violations, 0U);
      EXPECT_GT(evaluated_as(e, {parts, bf16, output}).violations, 16U) << output.name << parts;
    }
  }
  for (const char* id : {"column_sum", "sum", "embedding_grad", "rmsnorm_wgrad"}) {
    std::size_t seen = 0;
    for (unsigned seed = 1; seed <= 20; ++seed) {
      Draw draw("plain", seed);
      Example e = example_of(id, draw);
      e.how = {2, fp32, fp32};
      if (evaluated_as(e, {2, bf16, fp32}).violations > 0) ++seen;
    }
    EXPECT_GT(seen, 15U) << id;
  }
}

TEST(Sharpness, ARoundingTooManyIsSeen) {
  // Rounded to e5m2 or to bf16 before the promised cast.
  for (const char* id : {"gemm", "add", "rmsnorm", "layernorm", "rope", "attention", "gelu",
                         "swiglu", "cross_entropy", "scale", "attention_grad", "dropout"}) {
    std::size_t seen = 0;
    for (unsigned seed = 1; seed <= 10; ++seed) {
      Draw draw("plain", seed);
      Example e = example_of(id, draw);
      e.how = {1, fp32, fp32};
      if (evaluated_as(e, {1, fp32, bf16}).violations > 0) ++seen;
    }
    EXPECT_GE(seen, 9U) << id;
  }
}

TEST(Sharpness, ADroppedAttentionEntryIsSeen) {
  for (const Format& output : {fp32, bf16}) {
    Draw draw("plain", 12);
    const Example e{"attention",
                    {draw.moderate(20, 48, 1)},
                    {{"heads", 1}, {"kv_heads", 1}, {"head_dim", 16}, {"sequence", 20}},
                    {1, fp32, output}};
    auto o = evaluation_of(e);
    // The last query of 20 keys spreads its attention: an entry of about 0.05 goes missing.
    const Matrix<double>& x = e.inputs[0];
    std::vector<double> p;
    double z = 0;
    for (std::size_t j = 0; j < 20; ++j) {
      double s = 0;
      for (std::size_t c = 0; c < 16; ++c) s += x(19, c) * x(j, 16 + c);
      p.push_back(std::exp(s / 4));
      z += p.back();
    }
    std::size_t chosen = 0;
    for (std::size_t j = 0; j < 20; ++j) {
      if (std::fabs(p[j] / z - 0.05) < std::fabs(p[chosen] / z - 0.05)) chosen = j;
    }
    for (std::size_t c = 0; c < 16; ++c) {
      o[0](19, c) -= static_cast<float>(p[chosen] / z * x(chosen, 32 + c));
    }
    Comparison verdict;
    judge(e, o, verdict);
    EXPECT_GT(verdict.violations, 8U) << output.name << ", p " << p[chosen] / z;
  }
}

TEST(Sharpness, ALostTermIsSeen) {
  // One of 256 products missing; one of 16 tokens missing from a sum.
  Example e = gemm_of("plain", 256, {1, fp32, bf16});
  Example less = e;
  for (std::size_t i = 0; i < 16; ++i) less.inputs[0](i, 100) = 0;
  Comparison verdict;
  judge(e, evaluation_of(less), verdict);
  EXPECT_GT(verdict.violations, 200U);
}

TEST(Sharpness, OutputRoundingDominatesBf16Tolerances) {
  for (const char* id : {"gemm", "rmsnorm", "layernorm", "swiglu", "gelu", "rope", "scale"}) {
    Draw draw("positive", 21);
    Example e = example_of(id, draw);
    e.attributes["one_pass"] = e.attributes["welford"] = 0;  // a mean far from zero is theirs
    e.how = {1, fp32, bf16};
    const auto tolerance = tolerance_of(e);
    double stored = 0;
    double rest = 0;
    for (const Term& term : tolerance->terms[0]) {
      (term.name == "stored" ? stored : rest) += term.largest;
    }
    EXPECT_GT(stored, 20 * rest) << id;
  }
}

// The largest ratio error / bound over many draws with one slice of the arithmetic dominating: were
// that term dropped, the ratio would pass one; were the bound inflated tenfold, it would fall
// below.
struct Case {
  const char* id;
  Evaluation how;
  const char* kind;
  double at_least;
};

class Terms : public testing::TestWithParam<Case> {
 protected:
  // Blocks lie elsewhere in another Evaluation, and have other scales.
  static void give_scales(Example& e) {
    if (e.id != "quantize_blocks") return;
    Example scales{"block_scales", e.inputs, e.attributes, e.how};
    scales.inputs.erase(scales.inputs.begin() + 1);
    scales.attributes["rule"] = static_cast<double>(ScaleRule::ceil);
    e.inputs[1] = value_of(scales)[0];
  }
};

TEST_P(Terms, AreAllNeeded) {
  const Case& c = GetParam();
  Comparison verdict;
  for (int seed = 1; seed <= std::max(150, effort(150)); ++seed) {
    Draw draw(c.kind, 500 + static_cast<unsigned>(seed));
    Example e = example_of(c.id, draw);
    e.how = c.how;
    give_scales(e);
    judge(e, evaluation_of(e), verdict);
  }
  EXPECT_EQ(verdict.violations, 0U);
  EXPECT_GT(verdict.largest_ratio, c.at_least);
  RecordProperty("ratio", std::to_string(verdict.largest_ratio));
}

INSTANTIATE_TEST_SUITE_P(Bounds, Terms,
                         testing::Values(Case{"gemm", {1, fp32, fp32}, "positive", 0.05},
                                         Case{"gemm", {1, fp32, fp32}, "tiny", 0.3},
                                         Case{"gemm", {4, bf16, fp32}, "plain", 0.5},
                                         Case{"gemm", {4, bf16, bf16}, "plain", 0.5},
                                         Case{"column_sum", {1, fp32, fp32}, "positive", 0.3},
                                         Case{"column_sum", {4, bf16, fp32}, "positive", 0.5},
                                         Case{"sum", {2, bf16, fp32}, "plain", 0.7},
                                         Case{"rmsnorm", {1, fp32, fp32}, "plain", 0.25},
                                         Case{"layernorm", {1, fp32, fp32}, "plain", 0.1},
                                         Case{"rmsnorm_grad", {1, fp32, fp32}, "plain", 0.1},
                                         Case{"layernorm_grad", {1, fp32, fp32}, "plain", 0.05},
                                         Case{"rope", {1, fp32, fp32}, "plain", 0.7},
                                         Case{"gelu", {1, fp32, fp32}, "plain", 0.3},
                                         Case{"gelu_grad", {1, fp32, fp32}, "plain", 0.2},
                                         Case{"gelu_erf", {1, fp32, fp32}, "plain", 0.3},
                                         Case{"gelu_erf_grad", {1, fp32, fp32}, "plain", 0.2},
                                         Case{"silu", {1, fp32, fp32}, "plain", 0.4},
                                         Case{"silu_grad", {1, fp32, fp32}, "plain", 0.3},
                                         Case{"squared_relu", {1, fp32, fp32}, "plain", 0.7},
                                         Case{"swiglu", {1, fp32, fp32}, "plain", 0.4},
                                         Case{"swiglu_grad", {1, fp32, fp32}, "plain", 0.3},
                                         Case{"cross_entropy", {1, fp32, fp32}, "plain", 0.2},
                                         Case{"cross_entropy_grad", {1, fp32, fp32}, "plain", 0.3},
                                         Case{"softmax", {1, fp32, fp32}, "plain", 0.3},
                                         Case{"softmax_grad", {1, fp32, fp32}, "plain", 0.3},
                                         Case{"log_sum_exp", {1, fp32, fp32}, "plain", 0.3},
                                         Case{"softmax_merge", {1, fp32, fp32}, "plain", 0.3},
                                         Case{"quantize", {1, fp32, e4m3fn}, "plain", 0.9},
                                         Case{"quantize_blocks", {1, fp32, e2m1}, "plain", 0.9},
                                         Case{"attention", {1, fp32, fp32}, "plain", 0.1},
                                         Case{"attention", {1, fp32, bf16}, "plain", 0.4},
                                         Case{"attention_grad", {1, fp32, fp32}, "plain", 0.05},
                                         Case{"attention_grad", {1, fp32, bf16}, "plain", 0.3},
                                         Case{"adam", {1, fp32, fp32}, "plain", 0.3}),
                         [](const auto& parameter) {
                           const Case& c = parameter.param;
                           return std::string(c.id) + "_" + std::to_string(c.how.parts) + "_" +
                                  std::string(c.how.wire.name) + "_" +
                                  std::string(c.how.output.name) + "_" + c.kind;
                         });

// |A| |B| in the bound is a product in FP32 itself, and loses here what the chain loses.
TEST(Tolerance, OfGemmCountsAllOfItsTerms) {
  constexpr std::size_t k = 4096;
  Example e{"gemm",
            {Matrix<double>(1, k, 0.75 * 0x1p-12), Matrix<double>(k, 1, 1)},
            {{"transpose_a", 0}, {"transpose_b", 0}},
            {1, fp32, fp32}};
  e.inputs[0](0, 0) = 0x1p12;
  const double all = 0x1p12 + 4095 * 0.75 * 0x1p-12, ku = 4096 * 0x1p-24;
  EXPECT_GE(tolerance_of(e)->bound[0].values[0], ku / (1 - ku) * all);
}

// FP64 loses them all; so the norm is not one, to a few parts in 2^40.
TEST(Tolerance, OfGradNormCoversItsFp64Sum) {
  Example e{"grad_norm", {Matrix<double>(1, 100'001, 0x1.ep-28)}, {}, {}};
  e.inputs[0].values[0] = 1;
  const double distance =
      truth_of(e)[0].values[0].distance_from(static_cast<double>(evaluation_of(e)[0].values[0]));
  EXPECT_GT(distance, 1e-12);
  EXPECT_LE(distance, tolerance_of(e)->bound[0].values[0]);
}

TEST(Tolerance, IsMeasuredFromTheValueAsGiven) {
  // The caller's FP64 order may differ from the mirrored one: then the bound says so.
  const Example e = gemm_of("plain", 8, {1, fp32, fp32});
  std::vector<const Matrix<double>*> pointers{&e.inputs[0], &e.inputs[1]};
  auto values = value_of(e);
  const double own = tolerance_of(e)->bound[0].values[0];
  values[0].values[0] += 1e-3;
  const auto moved = find_operation("gemm")->tolerance(
      {pointers, e.attributes, e.how, Mode::deterministic, 0, values});
  EXPECT_NEAR(moved->bound[0].values[0], own + 1e-3, 1e-12);
  EXPECT_EQ(moved->terms[0].rbegin()[1].name, "judge");  // before the slack
}

TEST(Tolerance, RefusesWhatItCannotBound) {
  Example e = gemm_of("plain", 8, {1, fp32, fp32});
  e.inputs[0].values[3] = std::nan("");
  EXPECT_EQ(tolerance_of(e).error().why, Why::not_finite);
  e = gemm_of("plain", 8, {1, fp32, fp32});
  for (double& x : e.inputs[0].values) x *= 0x1p127;
  EXPECT_EQ(tolerance_of(e).error().why, Why::may_overflow);
  Example narrow{"cast", {Matrix<double>(1, 1, 470)}, {}, {1, fp32, e4m3fn}};
  EXPECT_EQ(tolerance_of(narrow).error().why, Why::may_overflow);
}

}  // namespace
}  // namespace plumb::sharpness_test
