// The softmax inside attention: scores anywhere within their errors, exp anywhere within its ulp.
#include "bounds/operations/attention.hpp"

#include <gtest/gtest.h>

#include "bounds/examples/example.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::attention_test {
namespace {

// The float just below or just above x.
float beside(double x, bool above) {
  const auto near = static_cast<float>(x);
  if ((static_cast<double>(near) >= x) == above) return near;
  return std::nextafter(near, above ? HUGE_VALF : 0.0F);
}

// FP32's softmax where entry `up` is favoured by every error that is allowed.
std::vector<float> favouring(std::size_t up, const std::vector<double>& score, double error) {
  std::vector<float> held;
  for (std::size_t j = 0; j < score.size(); ++j) {
    held.push_back(round_to(static_cast<float>(score[j] + (j == up ? error : -error)), fp32));
  }
  const float largest = *std::max_element(held.begin(), held.end());
  float sum = 0;
  for (std::size_t j = 0; j < held.size(); ++j) {
    const float d = held[j] - largest;
    held[j] = d == 0 ? 1 : beside(std::exp(static_cast<double>(d)), j == up);
    sum += held[j];
  }
  for (float& p : held) p /= sum;
  return held;
}

// The largest error / bound for entry `up` over many rows.
double worst_ratio(std::size_t n, double spread, double score_error) {
  Draw draw("plain", 31);
  double worst = 0;
  for (int row = 0; row < effort(200); ++row) {
    std::vector<double> score(n);
    // Exact scores are floats; inexact ones are known up to an error above their spacing.
    for (double& s : score) s = static_cast<double>(static_cast<float>(-spread * draw.uniform()));
    const std::size_t up = draw.between(0, n - 1);
    const double given = score_error == 0 ? 0 : score_error * (1 + 0x1p-10);
    const std::vector<double> errors(n, given);
    std::vector<double> p(n);
    std::vector<double> bound(n);
    softmax_with_error(score.data(), errors.data(), n, p.data(), bound.data());
    const std::vector<float> held = favouring(up, score, score_error);
    for (std::size_t j = 0; j < n; ++j) {
      const double off = std::fabs(static_cast<double>(held[j]) - p[j]);
      EXPECT_LE(off, bound[j]) << n << " " << spread << " " << score_error;
      worst = std::max(worst, off / bound[j]);
    }
  }
  return worst;
}

TEST(AttentionSoftmax, IsBoundedAndNearlyAttained) {
  EXPECT_GT(worst_ratio(2, 0.7, 0), 0.25);   // exp, the division
  EXPECT_GT(worst_ratio(30, 60, 0), 0.3);    // the rounding of far scores
  EXPECT_GT(worst_ratio(12, 8, 1e-3), 0.9);  // inexact scores, above and below the line
  EXPECT_GT(worst_ratio(40, 100, 1e-2), 0.9);
  EXPECT_GT(worst_ratio(3000, 0.3, 0), 0.005);  // the chain, far from its worst case
}

// With queries of zero all probabilities are equal and their errors small: what is left to see are
// the chains of the gradient.
Comparison with_quiet_scores(std::size_t dim, std::size_t sequence, double spread_of_values,
                             bool cancelling) {
  Draw draw(cancelling ? "cancelling" : "positive", 4);
  const std::size_t width = 3 * dim;
  Example e{"attention_grad",
            {Matrix<double>(sequence, width), draw.matrix(sequence, dim)},
            {{"heads", 1}, {"kv_heads", 1}, {"head_dim", dim}, {"sequence", sequence}},
            {1, fp32, fp32}};
  const Matrix<double> keys = draw.moderate(sequence, dim, 1);
  for (std::size_t t = 0; t < sequence; ++t) {
    for (std::size_t c = 0; c < dim; ++c) {
      e.inputs[0](t, dim + c) = t == 0 ? keys(t, c) : 0;
      const double v = 1 + spread_of_values * keys(t, c);
      e.inputs[0](t, 2 * dim + c) = static_cast<double>(static_cast<float>(v));
    }
  }
  Comparison verdict;
  judge(e, evaluation_of(e), verdict);
  return verdict;
}

TEST(AttentionGradient, ItsChainsAreSeenWhereScoresAreQuiet) {
  const Comparison long_rows = with_quiet_scores(2, 700, 1e-3, false);  // D, over 700 keys
  const Comparison wide_rows = with_quiet_scores(96, 6, 1e-6, true);    // dP, over 96 columns
  EXPECT_EQ(long_rows.violations + wide_rows.violations, 0U);
  EXPECT_GT(long_rows.largest_ratio, 0.005);
  EXPECT_GT(wide_rows.largest_ratio, 0.02);
}

// Chains that stagnate: 2^12, and then numbers that are 3/8 of its spacing and vanish one by one.
// Each test makes one chain the only large error; n u times its sum is then three quarters used up.
constexpr double large = 0x1p12, vanishing = 0.75 * 0x1p-12;

Example of_two_tokens(const char* id, std::size_t dim) {
  return {id,
          {Matrix<double>(2, 3 * dim), Matrix<double>(2, dim)},
          {{"heads", 1}, {"kv_heads", 1}, {"head_dim", dim}, {"sequence", 2}},
          {1, fp32, fp32}};
}

double seen_in(Example e) {
  if (e.id == "attention") e.inputs.pop_back();
  Comparison seen;
  judge(e, evaluation_of(e), seen);
  EXPECT_EQ(seen.violations, 0U);
  return seen.largest_ratio;
}

TEST(AttentionChains, OfScoresStagnate) {
  constexpr std::size_t dim = 1024;
  Example e = of_two_tokens("attention", dim);
  Matrix<double>& x = e.inputs[0];
  for (std::size_t c = 0; c < dim; ++c) {
    x(1, c) = c == 0 ? 0x1p6 : 1;                // query of the second token
    x(1, dim + c) = c == 0 ? 0x1p6 : vanishing;  // its own key
    x(0, dim + c) = c == 0 ? 0x1p6 : 0;          // the first token's
  }
  x(1, 2 * dim) = 1;  // so the output is the probability
  EXPECT_GT(seen_in(e), 0.15);
}

TEST(AttentionChains, OfValuesStagnate) {
  constexpr std::size_t sequence = 256;  // queries of zero: all probabilities are 2^-8
  Example e{"attention",
            {Matrix<double>(sequence, 6), Matrix<double>(sequence, 2)},
            {{"heads", 1}, {"kv_heads", 1}, {"head_dim", 2}, {"sequence", sequence}},
            {1, fp32, fp32}};
  for (std::size_t t = 0; t < sequence; ++t) {
    e.inputs[0](t, 4) = 0x1p8 * (t == 0 ? large : vanishing);
  }
  EXPECT_GT(seen_in(e), 0.2);
}

TEST(AttentionChains, OfTheSumsInSoftmaxGradientsStagnate) {
  constexpr std::size_t sequence = 256;
  Example e{"attention_grad",
            {Matrix<double>(sequence, 6), Matrix<double>(sequence, 2)},
            {{"heads", 1}, {"kv_heads", 1}, {"head_dim", 2}, {"sequence", sequence}},
            {1, fp32, fp32}};
  e.inputs[1](sequence - 1, 0) = 1;  // only the last query counts
  for (std::size_t t = 0; t < sequence; ++t) {
    e.inputs[0](t, 4) = 0x1p8 * (t == 0 ? large : vanishing);
  }
  // And one key: dq is dS of the last entry, P (dP - D), in which dP and D nearly cancel. So the
  // chain of dq has little to add.
  e.inputs[0](sequence - 1, 2) = 1;
  e.inputs[0](sequence - 1, 4) = large;
  EXPECT_GT(seen_in(e), 0.2);
}

TEST(AttentionChains, OfProbabilityGradientsEnterEachOthersSum) {
  constexpr std::size_t dim = 1024;
  Example e = of_two_tokens("attention_grad", dim);
  Matrix<double>& x = e.inputs[0];
  for (std::size_t c = 0; c < dim; ++c) {
    e.inputs[1](1, c) = c == 0 ? 0x1p6 : 1;
    x(0, 2 * dim + c) = c == 0 ? 0x1p6 : vanishing;  // dP of the first key stagnates
  }
  x(1, dim) = 1;  // dq is dS of the second entry: P (0 - D), and D holds the first one's error
  EXPECT_GT(seen_in(e), 0.2);
}

// The same mask in BF16 stays inside, and comes near; another mask, or the mean in its place, does not.
TEST(AttentionDropout, IsBoundedForItsMaskAlone) {
  for (const char* id : {"attention", "attention_grad"}) {
    Draw draw("plain", 6);
    Example e = of_two_tokens(id, 8);
    for (Matrix<double>& x : e.inputs) x = draw.matrix(x.rows, x.cols, bf16);
    if (e.id == "attention") e.inputs.pop_back();
    e.how.output = bf16;
    e.attributes.insert({{"rate", 0.5}, {"mask", 3}});
    Comparison same, another, none;
    judge(e, evaluation_of(e), same);
    EXPECT_EQ(same.violations, 0U) << id;
    EXPECT_GT(same.largest_ratio, 0.3) << id;
    Example other = e;
    other.attributes["mask"] = 4;
    judge(e, evaluation_of(other), another);
    other.attributes["rate"] = 0;
    judge(e, evaluation_of(other), none);
    EXPECT_GT(std::min(another.violations, none.violations), 0U) << id;
  }
}

}  // namespace
}  // namespace plumb::attention_test
