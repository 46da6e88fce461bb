// Is each backend within our own bound of the exact product, and does it tell the truth about
// slices?
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "bounds/operation.hpp"
#include "kernels/backend.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::kernels {
// Prints a parameter of GoogleTest by name, instead of its address.
static void PrintTo(const Backend* backend, std::ostream* out) { *out << backend->name; }
}  // namespace plumb::kernels

namespace plumb::gemm_test {

namespace {

Tensor drawn(std::size_t rows, std::size_t cols, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Tensor x(rows, cols);
  for (float& v : x.values) v = normal(random);
  return x;
}

Tensor product_on(const Backend& backend, View<float> a, View<float> b) {
  Tensor c(a.rows, b.cols);
  backend.gemm(a, b, c.values.data(), c.cols, false);
  return c;
}

class Gemm : public testing::TestWithParam<const Backend*> {
 protected:
  void SetUp() override {
    if (!GetParam()->usable_here()) {
      GTEST_SKIP() << GetParam()->name
                   << " needs what is not here: a GPU, or its library when built";
    }
  }
};

// BF16 numbers take another way through some backends.
Tensor as(const Format& format, Tensor x) {
  RealRoundings().round(x, format);
  return x;
}

TEST_P(Gemm, StaysWithinTheDeterministicBound) {
  const Attributes plain{{"transpose_a", 0}, {"transpose_b", 0}};
  for (unsigned seed = 1; seed <= 40; ++seed) {
    const Format& format = seed % 2 == 0 ? bf16 : fp32;
    const Tensor a = as(format, drawn(7 + seed, 3 * seed, seed));
    const Tensor b = as(format, drawn(3 * seed, 40, 100 + seed));
    const Matrix<double> wide_a = converted<double>(a), wide_b = converted<double>(b);
    ExactRoundings none;
    const std::vector<Matrix<double>> truth =
        find_operation("gemm")->value({{&wide_a, &wide_b}, plain, {}, none});
    const auto tolerance = find_operation("gemm")->tolerance(
        {{&wide_a, &wide_b}, plain, {}, Mode::deterministic, 0, truth});
    ASSERT_TRUE(tolerance.has_value());
    const Tensor c = product_on(*GetParam(), view(a), view(b));
    for (std::size_t e = 0; e < c.size(); ++e) {
      ASSERT_LE(std::fabs(static_cast<double>(c.values[e]) - truth[0].values[e]),
                tolerance->bound[0].values[e])
          << "seed " << seed;
    }
  }
}

TEST_P(Gemm, SaysTheTruthAboutSlices) {
  std::mt19937 random(7);
  bool all_equal = true;
  for (int i = 0; i < 100; ++i) {
    const std::size_t m = 1 + random() % 60, n = 2 + random() % 140, k = 1 + random() % 300;
    const auto seed = static_cast<unsigned>(2 * i);
    const Format& format = i % 2 == 0 ? fp32 : bf16;
    const Tensor a = as(format, drawn(m, k, seed)), b = as(format, drawn(k, n, seed + 1));
    const Tensor whole = product_on(*GetParam(), view(a), view(b));
    const std::size_t cut = 1 + random() % (n - 1);
    const Tensor left = product_on(*GetParam(), view(a), columns(view(b), 0, cut));
    const std::size_t row = random() % m;
    const Tensor one = product_on(*GetParam(), rows(view(a), row, row + 1), view(b));
    for (std::size_t j = 0; j < n; ++j) {
      all_equal = all_equal && one(0, j) == whole(row, j);
      if (j < cut) all_equal = all_equal && left(row, j) == whole(row, j);
    }
  }
  EXPECT_EQ(all_equal, GetParam()->slice_invariant);
}

// op(x) of some rows and columns, within a larger matrix.
View<float> within(const Tensor& x, std::size_t rows, std::size_t cols, bool transposed) {
  return {x.row(1) + 2, rows, cols, x.cols, transposed};
}

// k terms added to one that is there, in any order: n = k + 2 roundings are below n u / (1 - n u)
// of the sum of magnitudes (Higham 2002, 3.1), u = 2^-24. The plain loop is in FP64.
TEST_P(Gemm, TransposesAndAccumulatesWithinLargerMatrices) {
  std::mt19937 random(8);
  for (unsigned i = 0; i < 64; ++i) {
    const std::size_t m = 1 + random() % 40, n = 1 + random() % 200;
    const std::size_t k = i < 8 ? 0 : 1 + random() % 60;  // experts may have no tokens
    const bool of_a = (i & 1) != 0, of_b = (i & 2) != 0, accumulate = (i & 4) != 0;
    const Format& format = (i & 8) != 0 ? fp32 : bf16;
    const Tensor x = as(format, drawn((of_a ? k : m) + 2, (of_a ? m : k) + 3, 3 * i));
    const Tensor y = as(format, drawn((of_b ? n : k) + 2, (of_b ? k : n) + 3, 3 * i + 1));
    const View<float> a = within(x, m, k, of_a), b = within(y, k, n, of_b);
    Tensor before = drawn(m + 2, n + 3, 3 * i + 2);
    for (std::size_t r = 1; r <= m && !accumulate; ++r) {  // what is there counts for nothing
      std::fill_n(before.row(r) + 2, n, std::numeric_limits<float>::quiet_NaN());
    }
    Tensor after = before;
    GetParam()->gemm(a, b, after.row(1) + 2, after.cols, accumulate);
    for (std::size_t r = 0; r < after.rows; ++r) {
      for (std::size_t c = 0; c < after.cols; ++c) {
        const bool inside = r >= 1 && r <= m && c >= 2 && c < n + 2;
        if (!inside) {
          ASSERT_EQ(after(r, c), before(r, c)) << "written beside the product";
          continue;
        }
        double sum = accumulate ? static_cast<double>(before(r, c)) : 0, size = std::fabs(sum);
        for (std::size_t l = 0; l < k; ++l) {
          const double term = static_cast<double>(a(r - 1, l)) * static_cast<double>(b(l, c - 2));
          sum += term;
          size += std::fabs(term);
        }
        const double nu = static_cast<double>(k + 2) * 0x1p-24;
        ASSERT_NEAR(static_cast<double>(after(r, c)), sum, nu / (1 - nu) * size) << "run " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(On, Gemm, testing::ValuesIn(all_backends().begin(), all_backends().end()),
                         [](const auto& backend) { return std::string(backend.param->name); });

}  // namespace
}  // namespace plumb::gemm_test
