// A batch is its products, in values, bits and tolerances, whichever way they are transposed.
#include <gtest/gtest.h>

#include "bounds/examples/example.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::batched_gemm_test {
namespace {

constexpr std::size_t batch = 3, m = 4, k = 37, n = 5;

Example batched(bool ta, bool tb, const Evaluation& how, unsigned seed = 1) {
  Draw draw("plain", seed);
  const Matrix<double> a = draw.matrix(batch * (ta ? k : m), ta ? m : k, bf16);
  const Matrix<double> b = draw.matrix(batch * (tb ? n : k), tb ? k : n, bf16);
  return {
      "batched_gemm", {a, b}, {{"batch", batch}, {"transpose_a", ta}, {"transpose_b", tb}}, how};
}

// Product i on its own.
Example single_output(const Example& e, std::size_t i) {
  Example one{"gemm", {}, e.attributes, e.how};
  for (const Matrix<double>& x : e.inputs) {
    Matrix<double> block(x.rows / batch, x.cols);
    std::copy_n(x.row(i * block.rows), block.size(), block.values.begin());
    one.inputs.push_back(block);
  }
  return one;
}

TEST(BatchedGemm, IsItsProductsInEveryTransposition) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const Example e = batched(ta, tb, {2, bf16, bf16});
      const auto value = value_of(e)[0];
      const Tensor c = evaluation_of(e)[0];
      const auto t = tolerance_of(e);
      ASSERT_EQ(c.rows, batch * m);
      ASSERT_EQ(c.cols, n);
      for (std::size_t i = 0; i < batch; ++i) {
        const Example one = single_output(e, i);
        const auto own = tolerance_of(one);
        for (std::size_t j = 0; j < m * n; ++j) {
          const std::size_t at = i * m * n + j;
          ASSERT_EQ(value.values[at], value_of(one)[0].values[j]) << ta << tb;
          ASSERT_EQ(c.values[at], evaluation_of(one)[0].values[j]);
          ASSERT_EQ(t->bound[0].values[at], own->bound[0].values[j]);
        }
      }
    }
  }
}

TEST(BatchedGemm, SharesAProbabilityAmongItsProducts) {
  const Example e = batched(false, true, {1, fp32, fp32});
  const auto t = tolerance_of(e, Mode::probabilistic, 3e-6);
  ASSERT_TRUE(t);
  EXPECT_EQ(t->delta, 3e-6);
  const auto own = tolerance_of(single_output(e, 1), Mode::probabilistic, 1e-6);
  EXPECT_EQ(t->bound[0].values[m * n + 2], own->bound[0].values[2]);
  const auto moments = tolerance_of(e, Mode::moments);
  ASSERT_TRUE(moments);
  EXPECT_EQ(moments->bias[0].size(), batch * m * n);
  EXPECT_FALSE(t->terms[0].empty());
}

TEST(BatchedGemm, NamesTheProductThatIsRefused) {
  Example e = batched(false, false, {1, fp32, fp32});
  for (std::size_t j = 0; j < k; ++j) e.inputs[0](2 * m, j) = e.inputs[1](2 * k + j, 0) = 0x1p64;
  const auto t = tolerance_of(e);
  ASSERT_FALSE(t);
  EXPECT_EQ(t.error().why, Why::may_overflow);
  EXPECT_EQ(t.error().detail.rfind("product 2: ", 0), 0U) << t.error().detail;
}

TEST(BatchedGemm, RefusesWhatIsNoBatch) {
  for (const double wrong : {0.0, 5.0}) {
    Example e = batched(false, false, {1, fp32, fp32});
    e.attributes["batch"] = wrong;
    EXPECT_THROW((void)evaluation_of(e), std::invalid_argument);
  }
}

}  // namespace
}  // namespace plumb::batched_gemm_test
