// Do the operations that scale by blocks make what number/blocks.hpp makes on its own, anew
// in each slice, and does chance leave the mean where it is?
#include "number/blocks.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "bounds/examples/example.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::blocks_test {
namespace {

struct Made {
  Matrix<float> scales, values;
};

Made made(const Matrix<double>& x, const BlockFormat& format, int parts = 1, int sliced_rows = 0,
          double key = -1) {
  Attributes blocks{{"rows", static_cast<double>(format.rows)},
                    {"cols", static_cast<double>(format.cols)},
                    {"rule", static_cast<double>(format.rule)},
                    {"sliced_rows", sliced_rows},
                    {"by_reciprocal", format.rule == ScaleRule::nested_reciprocal}};
  const Evaluation how{parts, fp32, format.element};
  Example scaling{"block_scales", {x}, blocks, how};
  scaling.attributes.erase("by_reciprocal");
  const Matrix<float> scales = evaluation_of(scaling)[0];
  if (key >= 0) blocks["key"] = key;
  return {scales,
          evaluation_of({"quantize_blocks", {x, converted<double>(scales)}, blocks, how})[0]};
}

TEST(BlockOperations, MakeWhatTheFormatSays) {
  for (const char* kind : {"plain", "spread", "positive"}) {
    const Matrix<double> x = Draw(kind, 3).matrix(150, 200);
    std::vector<BlockFormat> formats(block_formats.begin(), block_formats.end());
    formats.push_back({"by reciprocals", e2m1, 1, 16, ScaleRule::nested_reciprocal});
    for (const BlockFormat& format : formats) {
      if (format.rows == 0) continue;
      const Quantised expected = quantise(converted<float>(x), format);
      const Made seen = made(x, format);
      EXPECT_EQ(seen.scales, expected.scales) << format.name << kind;
      // A quotient by a scale that is no power of two may be rounded onto a midpoint.
      std::size_t different = 0;
      for (std::size_t e = 0; e < x.size(); ++e) {
        different += seen.values.values[e] != expected.values.values[e] ? 1 : 0;
      }
      const bool power = format.rule != ScaleRule::exact && !is_nested(format.rule);
      EXPECT_LE(different, power ? 0U : 2U) << format.name << kind;
    }
  }
}

TEST(BlockOperations, BeginAnewInEachSlice) {
  const BlockFormat format{"", e4m3fn, 1, 32, ScaleRule::ceil};
  const Matrix<double> x = Draw("spread", 4).matrix(5, 96);  // two slices of 48: 32 and 16
  const Made seen = made(x, format, 2);
  EXPECT_EQ(seen.scales.cols, 4U);
  Matrix<double> half(5, 48);
  for (std::size_t i = 0; i < 5; ++i) std::copy_n(x.row(i) + 48, 48, half.row(i));
  const Made alone = made(half, format);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 48; ++j) ASSERT_EQ(seen.values(i, 48 + j), alone.values(i, j));
  }
  EXPECT_NE(made(x, format).values, seen.values);
  const Made down = made(x, {"", e4m3fn, 4, 1, ScaleRule::ceil}, 5, 1);  // five slices of one row
  EXPECT_EQ(down.scales.rows, 5U);
}

// Nine rows, of four experts 2, 3, 0 and 3, and one that was dropped: blocks of two rows begin with
// row 0 and, of two groups of experts, with row 5. The second expert of a group goes on where the
// first ends.
TEST(BlockOperations, BeginAnewInEachGroupOfExperts) {
  const Matrix<double> x = Draw("spread", 6).matrix(9, 3);
  Matrix<double> ids(9, 1);
  ids.values = {0, 3, 1, 4, 1, 0, 3, 1, 3};
  const Attributes blocks{
      {"rows", 2}, {"cols", 1}, {"rule", 1}, {"sliced_rows", 0}, {"experts", 4}};
  const auto largest = [&](std::size_t from, std::size_t to, std::size_t j) {
    double size = 0;
    for (std::size_t i = from; i < to; ++i) size = std::max(size, std::fabs(x(i, j)));
    return block_scale(size, ScaleRule::ceil, e4m3fn);
  };
  for (const int groups : {1, 2}) {
    Evaluation how{1, fp32, e4m3fn};
    how.tokens.groups = groups;
    const Matrix<double> s = value_of({"block_scales", {x, ids}, blocks, how})[0];
    const std::vector<std::size_t> begins = groups == 1
                                                ? std::vector<std::size_t>{0, 2, 4, 6, 8, 9}
                                                : std::vector<std::size_t>{0, 2, 4, 5, 7, 9};
    ASSERT_EQ(s.rows + 1, begins.size());
    const Matrix<double> y = value_of({"quantize_blocks", {x, s, ids}, blocks, how})[0];
    for (std::size_t b = 0; b < s.rows; ++b) {
      for (std::size_t j = 0; j < 3; ++j) {
        EXPECT_EQ(s(b, j), largest(begins[b], begins[b + 1], j)) << groups << " " << b;
      }
    }
    EXPECT_EQ(y, x);  // a value loses nothing but what is beyond
  }
}

// Of eight tokens two ranks have 0, 1, 6, 7 and 2 to 5. Of the rows of experts 0 to 3, of tokens
// 0 5, 2 4 7, none, 1 6, and that of token 3, which was dropped, each rank's make blocks of two.
TEST(BlockOperations, BeginAnewInEachRanksRowsOfAGroup) {
  const Matrix<double> x = Draw("spread", 7).matrix(8, 1);
  Matrix<double> ids(8, 1);
  ids.values = {0, 3, 1, 4, 1, 0, 3, 1};
  const Attributes blocks{
      {"rows", 2}, {"cols", 1}, {"rule", 1}, {"sliced_rows", 0}, {"experts", 4}};
  using Blocks = std::vector<std::vector<std::size_t>>;
  for (const int groups : {1, 2}) {
    const Blocks expected = groups == 1 ? Blocks{{0, 4}, {5, 6}, {1, 2}, {3, 7}}
                                        : Blocks{{0, 4}, {1, 2}, {3}, {5, 6}, {7}};
    const Evaluation how{1, fp32, e4m3fn, {2, 8, 0, false, groups}};
    const Matrix<double> s = value_of({"block_scales", {x, ids}, blocks, how})[0];
    ASSERT_EQ(s.rows, expected.size()) << groups;
    const Matrix<float> y = evaluation_of({"quantize_blocks", {x, s, ids}, blocks, how})[0];
    for (std::size_t b = 0; b < expected.size(); ++b) {
      double size = 0;
      for (const std::size_t i : expected[b]) size = std::max(size, std::fabs(x.values[i]));
      EXPECT_EQ(s.values[b], block_scale(size, ScaleRule::ceil, e4m3fn)) << groups << " " << b;
      for (const std::size_t i : expected[b]) {
        const double element = round_to(x.values[i] / s.values[b], e4m3fn);
        EXPECT_EQ(static_cast<double>(y.values[i]), element * s.values[b]) << groups << " " << i;
      }
    }
  }
}

TEST(BlockOperations, RoundByChanceToEitherNeighbourAndToTheMeanInTheEnd) {
  const BlockFormat format{"", e2m1, 1, 16, ScaleRule::ceil};
  const Matrix<double> x = Draw("plain", 5).matrix(8, 16);
  constexpr int draws = 400;
  double worst = 0;
  std::vector<double> sum(x.size());
  for (int key = 0; key < draws; ++key) {
    const Made seen = made(x, format, 1, 0, key);
    for (std::size_t e = 0; e < x.size(); ++e) {
      const double error = static_cast<double>(seen.values.values[e]) - x.values[e];
      worst = std::max(worst, std::fabs(error) / static_cast<double>(seen.scales(e / 16, 0)));
      sum[e] += error;
    }
  }
  EXPECT_LT(worst, 2);  // the widest spacing of E2M1
  EXPECT_GT(worst, 1);  // which to nearest no error exceeds
  // Hoeffding: errors of mean zero within a spacing of up to 2 scales add up to more than
  // spacing sqrt(draws ln(2 / p) / 2) with a chance below p; p is 1e-9 for each of 128 elements.
  const double most = 2 * std::sqrt(draws * std::log(2e9) / 2);
  const Matrix<float> nearest = made(x, format).values;
  std::size_t biased = 0;  // that rounding to nearest would show
  for (std::size_t e = 0; e < x.size(); ++e) {
    const auto scale = static_cast<double>(made(x, format).scales(e / 16, 0));
    EXPECT_LE(std::fabs(sum[e]), most * scale) << e;
    biased +=
        draws * std::fabs(static_cast<double>(nearest.values[e]) - x.values[e]) > most * scale;
  }
  EXPECT_GT(biased, 10U);
}

TEST(BlockOperations, SaturateWhereTheirRuleSaysAndTheBoundCoversIt) {
  Matrix<double> x(1, 32, 0.25);
  x.values[5] = 500;  // floor: a scale of one, and 448 is the largest
  const BlockFormat format{"", e4m3fn, 1, 32, ScaleRule::floor};
  EXPECT_EQ(made(x, format).values.values[5], 448);
  Example e{"quantize_blocks",
            {x, Matrix<double>(1, 1, 1)},
            {{"rows", 1}, {"cols", 32}, {"sliced_rows", 0}},
            {1, fp32, e4m3fn}};
  EXPECT_NEAR(tolerance_of(e)->bound[0].values[5], 52, 0x1p-14);  // FP32 rounds the product
  EXPECT_EQ(tolerance_of(e)->bound[0].values[4], 0);
  e.id = "quantize";
  EXPECT_FALSE(tolerance_of(e));
  e.attributes["saturate"] = 1;
  EXPECT_NEAR(tolerance_of(e)->bound[0].values[5], 52, 0x1p-14);  // FP32 rounds the product
  EXPECT_EQ(evaluation_of(e)[0].values[5], 448);
}

TEST(BlockOperations, WhoseScaleIsZeroLoseAllAndTheBoundCoversIt) {
  Matrix<double> x(1, 8, 1e-6);
  x.values[7] = 1;  // of two blocks the first is too small for a scale
  const BlockFormat format{"", e2m1, 1, 4, ScaleRule::nested_reciprocal};
  const Made seen = made(x, format);
  EXPECT_EQ(seen.scales.values[0], 0);
  EXPECT_EQ(seen.values.values[0], 0);
  EXPECT_NE(seen.values.values[7], 0);
  const Example e{"quantize_blocks",
                  {x, converted<double>(seen.scales)},
                  {{"rows", 1}, {"cols", 4}, {"sliced_rows", 0}, {"by_reciprocal", 1}},
                  {1, fp32, e2m1}};
  EXPECT_NEAR(tolerance_of(e)->bound[0].values[0], 1e-6, 1e-12);
  EXPECT_EQ(value_of(e)[0].values[0], 1e-6);  // the same mathematics loses nothing
}

// A kernel may take another order of FP32 steps: its scales are within the bound of any convention,
// which is hardly wider than the step between two scales.
TEST(BlockOperations, ScalesOfAnotherConventionAreWithinTheBoundOfAny) {
  double most_off = 0, widest = 0;
  for (const char* kind : {"plain", "spread", "positive"}) {
    const Matrix<double> x = Draw(kind, 8).matrix(200, 160, bf16);
    Example e{"block_scales",
              {x},
              {{"rows", 1}, {"cols", 16}, {"rule", 4}, {"sliced_rows", 0}},
              {1, fp32, e2m1}};
    const Matrix<double> own = value_of(e)[0];
    e.form = 1;
    const Matrix<double> bound = tolerance_of(e)->bound[0];
    // amax / 6 times the rounded reciprocal of the tensor's scale, and at least 2^-6.
    double all = 0;
    for (const double v : x.values) all = std::max(all, std::fabs(v));
    const float t = static_cast<float>(all) / 6 / 448, inverse = 1 / t;
    for (std::size_t b = 0; b < own.size(); ++b) {
      float amax = 0;
      for (std::size_t j = 0; j < 16; ++j) {
        amax = std::max(amax, std::fabs(static_cast<float>(x.values[16 * b + j])));
      }
      const float steps = round_to(amax / 6 * inverse, e4m3fn, {.saturate = true});
      const float other = std::max(steps, 0x1p-6F) * t;
      const double off = std::fabs(static_cast<double>(other) - own.values[b]);
      ASSERT_LE(off, bound.values[b]) << kind << " " << b;
      const double step = ulp(own.values[b] / static_cast<double>(t), e4m3fn) * t;
      most_off = std::max(most_off, off / step);
      if (own.values[b] > 0x1p-6 * t) widest = std::max(widest, bound.values[b] / step);
    }
  }
  EXPECT_GT(most_off, 0.9);  // ties were broken the other way
  EXPECT_LT(widest, 1.01);
}

TEST(BlockOperations, ScalesOfTinyBlocksStayNormal) {
  for (const ScaleRule rule : {ScaleRule::exact, ScaleRule::nested}) {
    const Made seen = made(Matrix<double>(1, 4, 0x1p-149), {"", e4m3fn, 1, 4, rule});
    EXPECT_EQ(seen.scales.values[0], 0x1p-126F);
    EXPECT_EQ(seen.values.values[0], 0);
  }
}

}  // namespace
}  // namespace plumb::blocks_test
