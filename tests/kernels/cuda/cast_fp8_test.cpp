// Does the GPU cast every number as the one rounding function says?
#include "kernels/cuda/cast_fp8.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "number/outcome.hpp"
#include "number/rounding.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::cast_fp8_test {
namespace {

// The number that a byte stands for.
double decoded(std::uint8_t code, const Format& format) {
  const int stored = format.precision - 1;
  const int bias = 1 - format.emin;
  const int exponent = (code & 0x7f) >> stored;
  const double fraction = std::ldexp(code & ((1 << stored) - 1), -stored);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, format.emin) : std::ldexp(1 + fraction, exponent - bias);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

std::vector<float> inputs() {
  std::vector<float> x;
  for (std::uint32_t code = 0; code < 65536; ++code) {
    x.push_back(std::bit_cast<float>(code << 16));
  }
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  }
  return x;
}

void compare(const Format& format, void (*cast)(std::span<const float>, std::span<std::uint8_t>)) {
  const std::vector<float> x = inputs();
  std::vector<std::uint8_t> codes(x.size());
  cast(x, codes);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      ASSERT_EQ(codes[i] & 0x7f, 0x7f) << i;
      continue;
    }
    const float expected = round_to(x[i], format, {.saturate = true});
    ASSERT_EQ(decoded(codes[i], format), static_cast<double>(expected)) << x[i];
  }
}

TEST(CastOnCuda, AgreesWithTheOneRounding) {
  if (!cuda_usable_here()) GTEST_SKIP() << "no GPU here, or built without CUDA";
  compare(e4m3fn, cast_to_e4m3fn_on_cuda);
  compare(e5m2, cast_to_e5m2_on_cuda);
}

TEST(CastOnCuda, RefusesWithAHintWhereThereIsNoGpu) {
  if (cuda_usable_here()) GTEST_SKIP() << "there is a GPU: it casts, and refuses nothing";
  std::vector<float> x(1);
  std::vector<std::uint8_t> codes(1);
  EXPECT_THROW(cast_to_e4m3fn_on_cuda(x, codes), Failure);
}

}  // namespace
}  // namespace plumb::cast_fp8_test
