// Three ways to a variance: one truth, three roundings, three bounds.
#include <gtest/gtest.h>

#include <numeric>

#include "bounds/examples/example.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::welford_test {
namespace {

Example norm_of(const Matrix<double>& x, const char* way) {
  Example e{"layernorm",
            {x, Matrix<double>(x.cols, 1, 1), Matrix<double>(x.cols, 1)},
            {{"eps", 1e-5}},
            {1, fp32, fp32}};
  if (*way != 0) e.attributes[way] = 1;
  return e;
}

// Rows of mean mu, deviation 1.
Matrix<double> rows_about(double mu, std::size_t cols, unsigned seed = 1) {
  Draw draw("plain", seed);
  return draw.moderate(4, cols, 1, mu);
}

double largest(const Matrix<double>& m) { return std::ranges::max(m.values); }

double largest_error(const Example& e) {
  const Tensor y = evaluation_of(e)[0];
  const auto value = value_of(e)[0];
  double error = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    error = std::max(error, std::fabs(static_cast<double>(y.values[i]) - value.values[i]));
  }
  return error;
}

TEST(Welford, MeansTheSameAndRoundsDifferently) {
  const Matrix<double> x = rows_about(3, 200);
  const auto value = value_of(norm_of(x, ""))[0], updated = value_of(norm_of(x, "welford"))[0];
  for (std::size_t i = 0; i < value.size(); ++i) {
    ASSERT_NEAR(updated.values[i], value.values[i], 1e-12);
  }
  EXPECT_NE(evaluation_of(norm_of(x, "welford")), evaluation_of(norm_of(x, "")));
}

// Where the mean is large, its bound is smaller than one_pass's, as its errors are [CGL83].
TEST(Welford, IsBetterThanOnePassWhereTheMeanIsLarge) {
  const Matrix<double> x = rows_about(100, 512);
  const auto bound = [&](const char* way) {
    return largest(tolerance_of(norm_of(x, way))->bound[0]);
  };
  EXPECT_LT(10 * bound("welford"), bound("one_pass"));
  EXPECT_LT(3 * largest_error(norm_of(x, "welford")), largest_error(norm_of(x, "one_pass")));
}

// The bound of the mean grows with the number of elements, not with its logarithm or square on top.
TEST(Welford, ItsBoundGrowsWithTheRow) {
  const auto relative = [](std::size_t n) {
    return largest(tolerance_of(norm_of(rows_about(30, n), "welford"))->bound[0]);
  };
  EXPECT_LT(relative(4096), 12 * relative(512));
}

TEST(Welford, StaysWithinItsToleranceOnEveryKindOfRow) {
  double nearest = 0;
  for (const char* kind : input_kinds) {
    for (int seed = 1; seed <= effort(40); ++seed) {
      Draw draw(kind, static_cast<unsigned>(seed));
      Example e = norm_of(draw.matrix(3, draw.between(1, 60)), "welford");
      if (seed % 3 == 0) {  // short rows far from zero: each step near its bound
        e = norm_of(draw.moderate(16, 1 + seed % 5, 1, 1000), "welford");
      }
      Comparison verdict;
      judge(e, evaluation_of(e), verdict);
      ASSERT_EQ(verdict.violations, 0U) << kind << seed;
      nearest = std::max(nearest, verdict.largest_ratio);
    }
  }
  EXPECT_GT(nearest, 0.5);
}

// Rows whose last element is about the mean: what is wrong with the mean is all that it shows.
// Their means come about by a rounded difference, a rounded quotient, or of numbers that FP32 has
// not.
TEST(Welford, NeedsEachOfItsTerms) {
  double difference = 0, quotient = 0, read = 0;
  const auto nearest = [](std::vector<double> row) {
    const double mean =
        std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(row.size());
    row.push_back(static_cast<double>(static_cast<float>(mean)));
    Matrix<double> x(1, row.size());
    x.values.assign(row.begin(), row.end());
    const Example e = norm_of(x, "welford");
    const auto y = evaluation_of(e)[0].values.back();
    const double error = std::fabs(static_cast<double>(y) - value_of(e)[0].values.back());
    const double ratio = error / tolerance_of(e)->bound[0].values.back();
    EXPECT_LE(ratio, 1);
    return ratio;
  };
  Draw draw("plain", 9);
  for (int i = 0; i < effort(4000); ++i) {
    const auto one = [&] { return static_cast<double>(static_cast<float>(1 + draw.uniform())); };
    const double a = one(), b = one(), c = 1 + draw.uniform();
    difference = std::max(difference, nearest({a, -b}));
    quotient = std::max(quotient, nearest({a, a, -2 * b}));
    read = std::max(read, nearest({c, c * (1 + 0x1p-22 * draw.uniform())}));
  }
  EXPECT_GT(difference, 0.6);
  EXPECT_GT(quotient, 0.6);
  EXPECT_GT(read, 0.6);
}

TEST(Welford, IsNotTakenTogetherWithOnePass) {
  Example e = norm_of(rows_about(0, 8), "welford");
  e.attributes["one_pass"] = 1;
  EXPECT_THROW((void)evaluation_of(e), std::invalid_argument);
}

}  // namespace
}  // namespace plumb::welford_test
