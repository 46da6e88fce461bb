// A kernel's test without a guessed tolerance: a matrix product in FP32, in an order of its own, is
// held against the bound that holds for every order, on the test's own inputs; and a product that
// forgets one of 4096 terms is seen.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "bounds/operation.hpp"

using namespace plumb;
using namespace plumb::bounds;

namespace {

// The kernel under test: eight partial sums, then their sum. `terms`: how many it takes.
Matrix<float> product_in_lanes(const Matrix<double>& a, const Matrix<double>& b,
                               std::size_t terms) {
  Matrix<float> y(a.rows, b.cols);
  for (std::size_t i = 0; i < y.rows; ++i) {
    for (std::size_t j = 0; j < y.cols; ++j) {
      float lanes[8] = {};
      for (std::size_t k = 0; k < terms; ++k) {
        lanes[k % 8] += static_cast<float>(a(i, k)) * static_cast<float>(b(k, j));
      }
      for (const float lane : lanes) y(i, j) += lane;
    }
  }
  return y;
}

// The largest error over its bound: at most 1 where rounding explains it.
double worst_ratio(const Matrix<double>& a, const Matrix<double>& b, const Matrix<float>& y) {
  const Operation& gemm = *find_operation("gemm");
  const Attributes attributes{{"transpose_a", 0}, {"transpose_b", 0}};
  const Evaluation how{1, fp32, fp32};  // one part, no wire, the result in FP32
  ExactRoundings exact;
  const auto values = gemm.value({{&a, &b}, attributes, how, exact});
  const auto allowed = gemm.tolerance({{&a, &b}, attributes, how, Mode::deterministic, 0, values});
  if (!allowed) {
    std::fprintf(stderr, "%s\n", allowed.error().detail.c_str());
    return INFINITY;
  }
  double worst = 0;
  for (std::size_t e = 0; e < y.size(); ++e) {
    if (std::isnan(y.values[e])) return INFINITY;
    const double error = std::fabs(static_cast<double>(y.values[e]) - values[0].values[e]);
    if (error > 0) worst = std::max(worst, error / allowed->bound[0].values[e]);
  }
  return worst;
}

Matrix<double> drawn(std::size_t rows, std::size_t cols, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Matrix<double> x(rows, cols);
  for (double& v : x.values) v = static_cast<double>(normal(random));
  return x;
}

}  // namespace

int main() {
  const Matrix<double> a = drawn(8, 4096, 1), b = drawn(4096, 8, 2);
  const double sound = worst_ratio(a, b, product_in_lanes(a, b, 4096));
  const double broken = worst_ratio(a, b, product_in_lanes(a, b, 4095));
  std::printf("error over bound: %.3g as it should be, %.3g with a term forgotten\n", sound,
              broken);
  return sound <= 1 && broken > 1 ? 0 : 1;
}
