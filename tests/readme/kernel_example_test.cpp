// Does the example of docs/kernel-author.md compile, and do what the page says?
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "bounds/operation.hpp"
#include "number/rounding.hpp"

namespace {

// [the page shows what follows]
using namespace plumb;
using namespace plumb::bounds;

// The largest error of y over what a product of BF16 numbers may be off by: at most 1 passes.
double worst_ratio(const Matrix<double>& a, const Matrix<double>& b, const Matrix<float>& y) {
  const Operation& gemm = *find_operation("gemm");
  const Attributes attributes{{"transpose_a", 0}, {"transpose_b", 0}};
  const Evaluation how{1, fp32, bf16};  // one part, no wire, the result in BF16
  ExactRoundings exact;
  const auto values = gemm.value({{&a, &b}, attributes, how, exact});
  const auto allowed = gemm.tolerance({{&a, &b}, attributes, how, Mode::deterministic, 0, values});
  if (!allowed) throw std::runtime_error(allowed.error().detail);
  double worst = 0;
  for (std::size_t e = 0; e < y.size(); ++e) {
    if (std::isnan(y.values[e])) return std::numeric_limits<double>::infinity();
    const double error = std::fabs(y.values[e] - values[0].values[e]);
    if (error > 0) worst = std::max(worst, error / allowed->bound[0].values[e]);
  }
  return worst;
}
// [to here]

// A kernel whose one fault can be planted: it forgets the last term.
Matrix<float> my_kernel(const Matrix<double>& a, const Matrix<double>& b, bool forgets) {
  Matrix<float> y(a.rows, b.cols);
  for (std::size_t i = 0; i < y.rows; ++i) {
    for (std::size_t j = 0; j < y.cols; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k + (forgets ? 1 : 0) < a.cols; ++k) {
        sum += static_cast<float>(a.row(i)[k] * b.row(k)[j]);
      }
      y.row(i)[j] = round_to(sum, bf16);
    }
  }
  return y;
}

TEST(KernelExample, PassesAHealthyKernelAndAccusesOneThatForgetsATerm) {
  Matrix<double> a(4, 256), b(256, 4);
  for (std::size_t e = 0; e < a.size(); ++e) {
    a.values[e] = round_to(std::sin(double(e)), bf16);
    b.values[e] = round_to(std::cos(3.0 * double(e)), bf16);
  }
  EXPECT_LE(worst_ratio(a, b, my_kernel(a, b, false)), 1);
  EXPECT_GT(worst_ratio(a, b, my_kernel(a, b, true)), 1);
  Matrix<float> y = my_kernel(a, b, false);
  y.values[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_GT(worst_ratio(a, b, y), 1);
}

TEST(KernelExample, StandsInThePage) {
  const auto text = [](const char* file) {
    std::ifstream in(std::filesystem::path(PLUMB_SOURCE_DIR) / file);
    return std::string((std::istreambuf_iterator<char>(in)), {});
  };
  const std::string mine = text("tests/readme/kernel_example_test.cpp");
  const std::size_t first = mine.find('\n', mine.find("[the page shows")) + 1;
  const std::string example = mine.substr(first, mine.find("// [to here]") - first);
  EXPECT_NE(text("docs/kernel-author.md").find(example), std::string::npos);
}

}  // namespace
