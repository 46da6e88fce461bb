// Do blocks keep their claim, saturate where their rule says, and reach the published quality?
#include "number/blocks.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "bounds/examples/draw.hpp"
#include "number/rounding.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::blocks_test {
namespace {

Tensor normal(std::size_t rows, std::size_t cols, const char* kind = "plain") {
  return converted<float>(Draw(kind, 5).matrix(rows, cols));
}

// Signal over quantisation noise of N(0, 1), in decibels.
double quality(const BlockFormat& format) {
  const Tensor x = normal(256, 1024);
  const Tensor q = quantise(x, format).values;
  double signal = 0, noise = 0;
  for (std::size_t e = 0; e < x.size(); ++e) {
    signal += std::pow(static_cast<double>(x.values[e]), 2);
    noise += std::pow(static_cast<double>(x.values[e]) - q.values[e], 2);
  }
  return 10 * std::log10(signal / noise);
}

BlockFormat with(const char* name, ScaleRule rule) {
  BlockFormat format = *find_block_format(name);
  format.rule = rule;
  return format;
}

// Measured before this code by other code, on 2^20 normal numbers (theory.md Q2).
TEST(Blocks, ReachTheQualityThatOthersMeasured) {
  EXPECT_NEAR(quality(*find_block_format("e4m3-tensor")), 31.57, 0.1);
  EXPECT_NEAR(quality(*find_block_format("e5m2-tensor")), 25.56, 0.1);
  EXPECT_NEAR(quality(*find_block_format("e4m3-1x128")), 31.80, 0.1);
  EXPECT_NEAR(quality(with("mxfp8-e4m3", ScaleRule::floor)), 30.65, 0.1);
  EXPECT_NEAR(quality(with("mxfp8-e4m3", ScaleRule::ceil)), 31.51, 0.1);
  EXPECT_NEAR(quality(with("mxfp4", ScaleRule::floor)), 18.78, 0.1);
  EXPECT_NEAR(quality(with("mxfp4", ScaleRule::ceil)), 18.75, 0.1);
  EXPECT_NEAR(quality(*find_block_format("nvfp4")), 20.44, 0.15);
}

TEST(Blocks, KeepTheirClaimElementByElement) {
  for (const char* kind : input_kinds) {
    const Tensor x = normal(64, 200, kind);
    for (const BlockFormat& format : block_formats) {
      const Quantised q = quantise(x, format);
      const std::size_t rows = format.rows == 0 ? x.rows : format.rows;
      const std::size_t cols = format.cols == 0 ? x.cols : format.cols;
      const double u = format.element.unit_roundoff();
      for (std::size_t i = 0; i < x.rows; ++i) {
        for (std::size_t j = 0; j < x.cols; ++j) {
          const double scale = q.scales(i / rows, j / cols), size = std::fabs(x(i, j));
          if (size > scale * format.element.largest()) continue;
          const double bound = u / (1 + u) * size + scale * format.element.spacing_at_zero() / 2;
          // FP32 may not hold the product of a tiny scale and an element.
          const double held = size * 0x1p-24 + 0x1p-149;
          ASSERT_LE(std::fabs(static_cast<double>(q.values(i, j)) - x(i, j)), bound + held)
              << format.name << " " << kind;
        }
      }
    }
  }
}

TEST(Blocks, FloorSaturatesAsOftenAsTheMantissasSayAndCeilNever) {
  const Tensor x = normal(512, 1024);
  const auto blocks_that_saturate = [&](ScaleRule rule) {
    int saturating = 0;
    const BlockFormat format = with("mxfp8-e4m3", rule);
    for (std::size_t i = 0; i < x.rows; ++i) {
      for (std::size_t j = 0; j < x.cols; j += 32) {
        Tensor block(1, 32);
        std::copy_n(x.row(i) + j, 32, block.values.begin());
        saturating += quantise(block, format).saturated > 0 ? 1 : 0;
      }
    }
    return saturating / (512.0 * 32);
  };
  EXPECT_NEAR(blocks_that_saturate(ScaleRule::floor), 0.136, 0.01);  // [theory.md Q3]
  EXPECT_EQ(blocks_that_saturate(ScaleRule::ceil), 0);
}

TEST(Blocks, ScalesOfPowersOfTwoByHand) {
  const auto scale = [](float largest, ScaleRule rule) {
    Tensor x(1, 32);
    x.values[7] = -largest;
    return quantise(x, with("mxfp8-e4m3", rule)).scales.values[0];
  };
  EXPECT_EQ(scale(448, ScaleRule::floor), 1);
  EXPECT_EQ(scale(448, ScaleRule::ceil), 1);
  EXPECT_EQ(scale(449, ScaleRule::floor), 1);
  EXPECT_EQ(scale(449, ScaleRule::ceil), 2);
  EXPECT_EQ(scale(480, ScaleRule::even), 1);  // 1.875 is a number of three fraction bits
  EXPECT_EQ(scale(500, ScaleRule::even), 2);  // 1.953 rounds to 2
  EXPECT_EQ(scale(0, ScaleRule::floor), 1);
}

TEST(Blocks, ScalesOfPowersOfTwoChangeNothingButTheEdges) {
  const Tensor x = normal(4, 64);
  Tensor doubled = x;
  for (float& v : doubled.values) v *= 2;
  for (const char* name : {"mxfp8-e4m3", "mxfp4", "mxfp6-e2m3"}) {
    Tensor q = quantise(x, *find_block_format(name)).values;
    for (float& v : q.values) v *= 2;
    EXPECT_EQ(quantise(doubled, *find_block_format(name)).values, q) << name;
  }
}

// What Transformer Engine writes into memory, from its source ([NVFP4]), step by step in FP32.
struct ByReciprocals {
  float tensor_scale = 0;
  Tensor codes, scales;
};
ByReciprocals by_reciprocals(const Tensor& x) {
  float all = 0;
  for (const float v : x.values) all = std::max(all, std::fabs(v));
  const float encode = all == 0 ? 1 : std::min(448.0F * 6.0F / all, 0x1.fffffep127F);
  const float decode = 1.0F / encode;
  ByReciprocals made{decode, Tensor(x.rows, x.cols), Tensor(x.rows, x.cols / 16)};
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t b = 0; b < x.cols / 16; ++b) {
      float amax = 0;
      for (std::size_t j = 16 * b; j < 16 * b + 16; ++j) amax = std::max(amax, std::fabs(x(i, j)));
      const float stored = round_to(amax * (encode * (1.0F / 6.0F)), e4m3fn, {.saturate = true});
      const float times = std::min(1.0F / (stored * decode), 0x1.fffffep127F);
      made.scales(i, b) = stored;
      for (std::size_t j = 16 * b; j < 16 * b + 16; ++j) {
        made.codes(i, j) = round_to(x(i, j) * times, e2m1, {.saturate = true});
      }
    }
  }
  return made;
}

TEST(Blocks, NestedByReciprocalsHaveTheBitsOfTransformerEngine) {
  const BlockFormat format = with("nvfp4", ScaleRule::nested_reciprocal);
  std::size_t blocks = 0, other_scales = 0, of_zero = 0;
  for (const char* kind : input_kinds) {
    Tensor x = normal(512, 256, kind);
    for (float& v : x.values) v = round_to(v, bf16);
    const ByReciprocals expected = by_reciprocals(x);
    const Quantised q = quantise(x, format), quotients = quantise(x, *find_block_format("nvfp4"));
    for (std::size_t i = 0; i < x.rows; ++i) {
      for (std::size_t j = 0; j < x.cols; ++j) {
        const float scale = expected.scales(i, j / 16) * expected.tensor_scale;
        ASSERT_EQ(q.scales(i, j / 16), scale) << kind << " " << i << " " << j;
        ASSERT_EQ(q.values(i, j), expected.codes(i, j) * scale) << kind << " " << i << " " << j;
        if (j % 16 > 0) continue;
        ++blocks;
        of_zero += scale == 0 ? 1 : 0;
        other_scales += std::fabs(scale - quotients.scales(i, j / 16)) > 0x1p-20F * scale ? 1 : 0;
      }
    }
  }
  EXPECT_GT(of_zero, 0U) << "of " << blocks;            // blocks that the other rule lifts
  EXPECT_GT(other_scales, of_zero) << "of " << blocks;  // ratios near a tie
}

TEST(Blocks, NestedByReciprocalsOfNothingAreZeros) {
  const Quantised q = quantise(Tensor(2, 32), with("nvfp4", ScaleRule::nested_reciprocal));
  EXPECT_EQ(q.scales, Tensor(2, 2));
  EXPECT_EQ(q.values, Tensor(2, 32));
}

TEST(Blocks, LeaveAloneWhatIsNotFinite) {
  Tensor x(1, 40, 1.0F);
  x.values[3] = std::nanf("");
  x.values[35] = INFINITY;
  const Quantised q = quantise(x, *find_block_format("mxfp4"));
  EXPECT_TRUE(std::isnan(q.values.values[3]));
  EXPECT_EQ(q.values.values[35], INFINITY);
  EXPECT_EQ(q.values.values[4], 1);
  EXPECT_EQ(q.scales.cols, 2U);
  EXPECT_EQ(find_block_format("mxfp5"), nullptr);
}

}  // namespace
}  // namespace plumb::blocks_test
