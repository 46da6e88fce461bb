// Every encoding of every format of at most 16 bits, every midpoint and both of its neighbours,
// against MPFR.
#include "number/rounding.hpp"
#include "number/ars.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>

#include "bounds/proof/exact.hpp"
#include "number/philox.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/printing.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::rounding_test {
namespace {

// All non-negative finite numbers of the format, in order.
std::vector<double> numbers_of(const Format& format) {
  std::vector<double> numbers;
  const auto significands = static_cast<int>(std::ldexp(1.0, format.precision - 1));
  for (int s = 0; s < significands; ++s) numbers.push_back(s * format.spacing_at_zero());
  for (int e = format.emin; e <= format.emax; ++e) {
    for (int s = 0; s < significands; ++s) {
      const double x = std::ldexp(significands + s, e - format.precision + 1);
      if (x <= format.largest()) numbers.push_back(x);
    }
  }
  return numbers;
}

class SmallFormat : public testing::TestWithParam<Format> {};

TEST_P(SmallFormat, HasAsManyNumbersAsItsBitsAllow) {
  const Format format = GetParam();
  const std::size_t positive = std::size_t{1} << (format.bits - 1);
  const std::size_t top = std::size_t{1} << (format.precision - 1);  // infinity and NaNs, or a gap
  const std::size_t missing =
      format.overflow == Overflow::to_infinity ? top : static_cast<std::size_t>(format.top_gap);
  EXPECT_EQ(numbers_of(format).size(), positive - missing);
  EXPECT_EQ(numbers_of(format).back(), format.largest());
}

TEST_P(SmallFormat, RoundsNumbersMidpointsAndTheirNeighboursAsMpfrDoes) {
  const Format format = GetParam();
  const std::vector<double> numbers = numbers_of(format);
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
    const double middle = (numbers[i] + numbers[i + 1]) / 2;
    for (const double x : {numbers[i], std::nextafter(middle, 0.0), middle,
                           std::nextafter(middle, format.largest())}) {
      const double right = exact_rounding(x, format.precision, format.emin);
      ASSERT_EQ(round_to(x, format), right) << x;
      ASSERT_EQ(round_to(-x, format), -right) << x;
      ASSERT_EQ(std::signbit(round_to(-x, format)), right != 0 || format.zeros == Zeros::both);
      const double down = round_to(x, format, {.how = Rounding::toward_zero});
      ASSERT_EQ(down, x == numbers[i + 1] ? x : numbers[i]) << x;
      const double up = round_to(x, format, {.how = Rounding::away});
      ASSERT_EQ(up, x == numbers[i] ? x : numbers[i + 1]) << x;
      const double flushed = round_to(x, format, {.flush = true});
      ASSERT_EQ(flushed, right < format.smallest_normal() ? 0 : right) << x;
    }
    ASSERT_LE(std::fabs(round_to(middle, format) - middle), ulp(middle, format) / 2);
  }
}

TEST_P(SmallFormat, FollowsItsRowBeyondTheLargest) {
  const Format format = GetParam();
  const double largest = format.largest();
  const double limit = largest + ulp(largest, format) / 2;
  const double inside = std::nextafter(limit, 0.0);
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(round_to(inside, format), largest);
  const double beyond = round_to(limit * 1.01, format);
  if (format.overflow == Overflow::to_nan) {
    EXPECT_TRUE(std::isnan(beyond));
  } else {
    EXPECT_EQ(beyond, format.overflow == Overflow::to_infinity ? infinity : largest);
  }
  EXPECT_EQ(round_to(limit * 1.01, format, {.how = Rounding::toward_zero}), largest);
  for (const double x : {limit * 1.01, infinity}) {
    EXPECT_EQ(round_to(x, format, {.saturate = true}), largest);
    EXPECT_EQ(round_to(-x, format, {.saturate = true}), -largest);
  }
  EXPECT_TRUE(std::isnan(round_to(std::numeric_limits<double>::quiet_NaN(), format)));
}

TEST_P(SmallFormat, StochasticRoundingGoesUpAsOftenAsThePositionSays) {
  const Format format = GetParam();
  const std::vector<double> numbers = numbers_of(format);
  std::mt19937 random(7);
  for (int i = 0; i < effort(2000); ++i) {
    const std::size_t n = random() % (numbers.size() - 1);
    const double quarter = numbers[n] + (numbers[n + 1] - numbers[n]) / 4;
    const auto word = static_cast<std::uint32_t>(random());
    const double expected = word >= 0xc0000000U ? numbers[n + 1] : numbers[n];
    const Cast cast{.how = Rounding::stochastic, .word = word};
    ASSERT_EQ(round_to(quarter, format, cast), expected);
    ASSERT_EQ(round_to(numbers[n], format, cast), numbers[n]);
  }
}

class TinyFormat : public testing::TestWithParam<Format> {};

// Sums and products of all pairs of numbers of at most eight bits are exact in FP64: one rounding.
TEST_P(TinyFormat, RoundsAllSumsAndProductsAsMpfrDoes) {
  const Format format = GetParam();
  std::vector<double> numbers = numbers_of(format);
  const std::size_t positive = numbers.size();
  for (std::size_t i = 0; i < positive; ++i) numbers.push_back(-numbers[i]);
  for (const double a : numbers) {
    for (const double b : numbers) {
      for (const double x : {a + b, a * b}) {
        const double right = exact_rounding(x, format.precision, format.emin);
        if (std::fabs(right) > format.largest()) continue;
        ASSERT_EQ(round_to(x, format), right) << a << " " << b;
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<Format>& parameter) {
  return std::string(parameter.param.name);
}

const auto tiny = testing::Values(e4m3fn, e5m2, e4m3fnuz, e5m2fnuz, e3m2, e2m3, e2m1);
INSTANTIATE_TEST_SUITE_P(Sixteen, SmallFormat, testing::Values(fp16, bf16), name_of);
INSTANTIATE_TEST_SUITE_P(Eight, SmallFormat, tiny, name_of);
INSTANTIATE_TEST_SUITE_P(Eight, TinyFormat, tiny, name_of);

TEST(Rounding, OfAnArrayIsThatOfItsElements) {
  std::mt19937 random(3);
  for (const Format& format : all_formats) {
    std::vector<float> values;
    for (int i = 0; i < effort(20000); ++i) {
      values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    }
    std::vector<float> rounded = values;
    round_in_place(rounded, format);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float alone = round_to(values[i], format);
      if (std::isnan(alone)) {
        ASSERT_TRUE(std::isnan(rounded[i])) << format.name << " " << values[i];
      } else {
        ASSERT_EQ(rounded[i], alone) << format.name << " " << values[i];
      }
    }
  }
}

// Bits of any kind, and numbers around the format's own range.
std::vector<float> any_values(std::mt19937& random, const Format& format, std::size_t n) {
  std::normal_distribution<float> normal;
  std::vector<float> values;
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    const int binade = static_cast<int>(random() % 24) - 14;
    values.push_back(i % 3 == 0
                         ? std::bit_cast<float>(bits)
                         : std::ldexp(normal(random), i % 3 == 1 ? binade : format.emin + binade));
  }
  return values;
}

void expect_that_of_elements(const std::vector<float>& values, const Format& format) {
  std::vector<float> rounded = values;
  round_stochastically(rounded, format, 11, 3);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t word = random_word(11, 3 + i);
    const float alone = round_to(values[i], format, {.how = Rounding::stochastic, .word = word});
    ASSERT_TRUE((std::isnan(alone) && std::isnan(rounded[i])) ||
                std::bit_cast<std::uint32_t>(alone) == std::bit_cast<std::uint32_t>(rounded[i]))
        << format.name << " " << values[i] << " " << alone << " " << rounded[i];
  }
}

// Values of any kind; and groups with none beyond the format, which are rounded in another way.
TEST(StochasticRounding, OfAnArrayIsThatOfItsElementsWithTheirWords) {
  std::mt19937 random(5);
  for (const Format& format : all_formats) {
    const std::vector<float> values =
        any_values(random, format, static_cast<std::size_t>(effort(20000)) + 7);
    expect_that_of_elements(values, format);
    std::vector<float> inside;
    for (const float x : values) {
      if (std::fabs(x) < format.largest()) inside.push_back(x);
    }
    expect_that_of_elements(inside, format);
  }
}

// Where the sixteen random bits that mostly decide equal those of the number, the others do.
TEST(StochasticRounding, DecidesTiesByTheOtherHalfOfTheWord) {
  std::size_t up = 0;
  constexpr std::size_t n = 4096;
  std::vector<float> values(n), rounded(n);
  for (std::size_t e = 0; e < n; ++e) {
    const std::uint32_t rest = e % 3 == 0 ? 0 : e % 3 == 1 ? 7 : 15;
    values[e] = std::bit_cast<float>(0x3f800000U | (random_half(2, e, 0) ^ 0xffffU) << 4 | rest);
  }
  rounded = values;
  round_stochastically(rounded, e4m3fn, 2);
  for (std::size_t e = 0; e < n; ++e) {
    const Cast cast{.how = Rounding::stochastic, .word = random_word(2, e)};
    ASSERT_EQ(rounded[e], round_to(values[e], e4m3fn, cast)) << e;
    up += rounded[e] > values[e] ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(up) / n, 22.0 / 48, 0.05);  // 0, 7 and 15 of 16 would go up
}

// Below the smallest normal number FP32 rounds on the way: here up, to where the bits would carry.
TEST(StochasticRounding, DoesNotCarryWhatFp32RoundsUp) {
  constexpr std::size_t n = 4096;
  std::vector<float> values(n), rounded(n);
  for (std::size_t e = 0; e < n; ++e) {
    const double missing = 0x1p-16 * random_half(2, e, 0);  // of a carry, in spacings
    const double in_spacings = static_cast<double>(e % 4) + 1 - missing - 0x1p-22;
    values[e] = static_cast<float>(in_spacings * e4m3fn.spacing_at_zero());
    ASSERT_EQ(values[e], in_spacings * e4m3fn.spacing_at_zero());
  }
  rounded = values;
  round_stochastically(rounded, e4m3fn, 2);
  for (std::size_t e = 0; e < n; ++e) {
    const Cast cast{.how = Rounding::stochastic, .word = random_word(2, e)};
    ASSERT_EQ(rounded[e], round_to(values[e], e4m3fn, cast)) << e;
  }
}

TEST(StochasticRounding, IsTheSameHoweverAnArrayIsSharded) {
  std::mt19937 random(6);
  const std::vector<float> values = any_values(random, bf16, 5000);
  std::vector<float> whole = values, parts = values;
  round_stochastically(whole, e4m3fn, 1);
  for (std::size_t at = 0; at < parts.size();) {
    const std::size_t n = std::min<std::size_t>(1 + random() % 700, parts.size() - at);
    round_stochastically(std::span(parts).subspan(at, n), e4m3fn, 1, at);
    at += n;
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(whole[i]), std::bit_cast<std::uint32_t>(parts[i]));
  }
}

}  // namespace
}  // namespace plumb::rounding_test
