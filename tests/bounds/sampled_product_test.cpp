// Is a sample of a product of its rows and columns, spread over the result, and of the same numbers?
#include "bounds/examples/sampled_product.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "bounds/cast_operand.hpp"
#include "bounds/examples/shaped.hpp"
#include "number/outcome.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::sampled_product_test {
namespace {

TEST(SampledProduct, IsTheWholeWhereThatIsNoMore) {
  for (const std::size_t run : {1, 16, 128}) {
    const ProductSample sample = sample_of({37, 20, 150}, run, run, 1 << 20);
    EXPECT_TRUE(sample.whole());
    const Example whole = shaped_example("gemm", "37x20x150", bf16);
    EXPECT_EQ(drawn_rows(sample, bf16), whole.inputs[0]);
    const Matrix<double> columns = drawn_columns(sample, bf16);
    for (std::size_t j = 0; j < 150; ++j) {
      for (std::size_t k = 0; k < 20; ++k) ASSERT_EQ(columns(j, k), whole.inputs[1](k, j));
    }
  }
}

// Whole runs are drawn, so that a block's scale is what it is in the whole tensor.
TEST(SampledProduct, TakesWholeRunsSpreadOverTheAxis) {
  const ProductSample sample = sample_of({1, 512, 8192}, 1, 128, 1 << 18);
  EXPECT_FALSE(sample.whole());
  EXPECT_EQ(sample.elements(), 512U);
  EXPECT_EQ(sample.cols.drawn.size(), 512U);
  for (std::size_t r = 0; r < 4; ++r) {
    const std::size_t first = sample.cols.drawn[128 * r];
    EXPECT_EQ(first % 128, 0U);
    EXPECT_EQ(first / 2048, r);
    EXPECT_EQ(sample.cols.drawn[128 * r + 127], first + 127);
  }
  const CastRule rule{e4m3fn, CastRule::Scaled::by_blocks, 128, 128, ScaleRule::exact};
  const Example whole = shaped_example("gemm", "1x512x8192", bf16);
  Matrix<double> all(8192, 512);
  for (std::size_t j = 0; j < all.rows; ++j) {
    for (std::size_t k = 0; k < all.cols; ++k) all(j, k) = whole.inputs[1](k, j);
  }
  const CastOperand of_all = cast_operand(all, rule, 0);
  const CastOperand of_sample = cast_operand(drawn_columns(sample, bf16), rule, 0);
  EXPECT_EQ(rows_of(sample.cols.drawn, of_all).codes, of_sample.codes);
  EXPECT_EQ(rows_of(sample.cols.drawn, of_all).scales, of_sample.scales);
}

TEST(SampledProduct, JudgesSomeRowsOfLargeRuns) {
  const ProductSample sample = sample_of({8192, 1024, 8192}, 1, 4096, 1 << 16);
  EXPECT_LE(sample.elements(), 64U);
  EXPECT_EQ(sample.cols.drawn.size(), 4096U);
  EXPECT_LT(sample.cols.judged.size(), 65U);
  const std::set<std::size_t> rows(sample.rows.drawn.begin(), sample.rows.drawn.end());
  EXPECT_EQ(rows.size(), sample.rows.drawn.size());
}

TEST(SampledProduct, KnowsTheLargestNumberOfATensor) {
  for (const std::uint64_t input : {0, 1}) {
    for (const std::size_t n : {1, 3, 1000, 50001}) {
      double largest = 0;
      for (std::size_t i = 0; i < n; ++i) {
        largest = std::max(largest, std::fabs(round_to(normal_at(input, i), bf16)));
      }
      EXPECT_EQ(largest_drawn(input, n, bf16), largest) << n;
    }
  }
}

TEST(SampledProduct, RefusesSumsThatNobodyTakes) {
  EXPECT_THROW(sample_of({4, (std::size_t(1) << 22) + 1, 4}, 1, 1, 1), Failure);
  EXPECT_THROW(sample_of({std::size_t(1) << 32, 4, 4}, 1, 1, 1), Failure);
}

}  // namespace
}  // namespace plumb::sampled_product_test
