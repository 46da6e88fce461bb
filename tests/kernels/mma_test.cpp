// Does the emulated matrix unit do one step as described, show the published biases of truncation,
// and never leave its bound?
#include <gtest/gtest.h>

#include <cmath>

#include "bounds/mma.hpp"
#include "bounds/number/rounding.hpp"
#include "kernels/mma/product.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/inputs.hpp"

namespace plumb {
namespace {

Mma unit_of(const char* machine, const Format& input, int promoted_after = 0) {
  Mma unit = find_machine(machine)->mma(input).value();
  unit.promoted_after = promoted_after;
  return unit;
}

float dot(const std::vector<float>& a, const std::vector<float>& b, const Mma& unit) {
  const View<float> row{a.data(), 1, a.size(), a.size()};
  const View<float> column{b.data(), b.size(), 1, 1};
  return mma_product(row, column, unit).values[0];
}

TEST(Mma, CutsAddendsAtTheGridOfTheLargest) {
  // V100: four terms, 23 fraction bits below the largest exponent. [FHMP21]
  const Mma v100 = unit_of("v100", fp16);
  const std::vector<float> ones(4, 1.0F);
  EXPECT_EQ(dot({1, 0x1p-12F, 0, 0}, {1, 0x1p-11F, 0, 0}, v100), 1 + 0x1p-23F);
  EXPECT_EQ(dot({1, 0x1p-12F, 0x1p-12F, 0}, {1, 0x1p-12F, 0x1p-12F, 0}, v100), 1);  // each is cut
  EXPECT_EQ(dot({1, -0x1p-12F, 0, 0}, {1, 0x1p-12F, 0, 0}, v100), 1);  // toward zero: no borrow
  // H100 keeps two more bits on the grid: the same two terms add up before the result is cut.
  const Mma h100 = unit_of("h100", fp16);
  EXPECT_EQ(dot({1, 0x1p-12F, 0x1p-12F, 0}, {1, 0x1p-12F, 0x1p-12F, 0}, h100), 1 + 0x1p-23F);
  EXPECT_EQ(dot({1, 0x1p-12F, 0, 0}, {1, 0x1p-12F, 0, 0}, h100), 1);
  EXPECT_EQ(dot(ones, ones, h100), 4);
}

TEST(Mma, ProductsAreNotRenormalised) {
  // 1.75 * 1.75 = 3.0625 has the exponent 0, not 1: the grid is that of 1.
  const Mma v100 = unit_of("v100", fp16);
  EXPECT_EQ(dot({1.75F, 0x1p-12F, 0, 0}, {1.75F, 0x1p-11F, 0, 0}, v100), 3.0625F);
  EXPECT_EQ(dot({1.75F, 0x1p-11F, 0, 0}, {1.75F, 0x1p-11F, 0, 0}, v100), 3.0625F + 0x1p-22F);
}

TEST(Mma, TheSumEntersTheNextStepAsAnAddend) {
  const Mma v100 = unit_of("v100", fp16);
  // Step 1 leaves 2^-20; step 2 has a product of 16, whose grid is 2^-19.
  EXPECT_EQ(dot({0x1p-10F, 0, 0, 0, 4, 0, 0, 0}, {0x1p-10F, 0, 0, 0, 4, 0, 0, 0}, v100), 16);
  EXPECT_EQ(dot({0x1p-9F, 0, 0, 0, 4, 0, 0, 0}, {0x1p-10F, 0, 0, 0, 4, 0, 0, 0}, v100),
            16 + 0x1p-19F);
}

struct Errors {
  double mean = 0, frobenius = 0, headroom = 1e300;
};

// Relative errors of many sums of length n; headroom: bound over largest error.
Errors errors_of(const Mma& unit, std::size_t n, bool positive) {
  Draw draw("plain", 11);
  const std::size_t rows = 40, cols = 40;
  Tensor a(rows, n), b(n, cols);
  for (Tensor* t : {&a, &b}) {
    for (float& x : t->values) {
      x = round_to(static_cast<float>(positive ? draw.uniform() : draw.normal()), unit.input);
    }
  }
  const Matrix<double> wide_a = converted<double>(a), wide_b = converted<double>(b);
  const Matrix<double> truth = product(view(wide_a), view(wide_b));
  const Matrix<double> bound = mma_bound(view(wide_a), view(wide_b), unit);
  const Tensor c = mma_product(view(a), view(b), unit);
  Errors e;
  double squares = 0, energy = 0, largest = 0, largest_bound = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    const double error = static_cast<double>(c.values[i]) - truth.values[i];
    e.mean += error / truth.values[i] / static_cast<double>(c.size());
    squares += error * error;
    energy += truth.values[i] * truth.values[i];
    largest = std::max(largest, std::fabs(error));
    largest_bound = std::max(largest_bound, bound.values[i]);
    EXPECT_LE(std::fabs(error), bound.values[i]);
  }
  e.frobenius = std::sqrt(squares / energy);
  e.headroom = largest_bound / largest;
  return e;
}

// Emulated for the design by another program (theory.md T4): shares of the result.
TEST(Mma, SumsOfOneSignLoseWhatWasPublishedForHopperFp8) {
  const Mma plain = unit_of("h100", e4m3fn), promoted = unit_of("h100", e4m3fn, 128);
  EXPECT_NEAR(errors_of(plain, 1024, true).mean, -0.0135, 0.0005);
  EXPECT_NEAR(errors_of(plain, 4096, true).mean, -0.066, 0.002);
  EXPECT_NEAR(errors_of(promoted, 1024, true).mean, -0.00050, 0.00005);
  EXPECT_NEAR(errors_of(promoted, 4096, true).mean, -0.00050, 0.00005);
  EXPECT_NEAR(errors_of(plain, 1024, false).frobenius, 0.00058, 0.00005);
  EXPECT_NEAR(errors_of(plain, 4096, false).frobenius, 0.0013, 0.0001);
  EXPECT_NEAR(errors_of(promoted, 4096, false).frobenius, 0.000126, 0.00001);
}

// Targets of the design for the rigorous bound on H100, BF16, n = 4096: 12 and 4.5.
TEST(MmaBound, IsNearTheLargestError) {
  EXPECT_LE(errors_of(unit_of("h100", bf16), 4096, false).headroom, 12);
  EXPECT_LE(errors_of(unit_of("h100", bf16), 4096, true).headroom, 4.5);
}

TEST(MmaBound, IsNeverExceeded) {
  int calls = 0;
  for (const char* name : {"v100", "a100", "ada", "h100", "b200"}) {
    for (const Format& input : {fp16, bf16, tf32, e4m3fn, e5m2}) {
      const std::optional<Mma> unit = find_machine(name)->mma(input);
      if (!unit) continue;
      for (const char* kind : input_kinds) {
        if (std::string_view(kind) == "tiny" && input == bf16) continue;  // leaves FP32's range
        for (int draw = 0; draw < effort(2); ++draw) {
          Draw inputs(kind, static_cast<unsigned>(draw) + 1);
          Mma used = *unit;
          used.promoted_after = draw % 2 == 0 ? 0 : 4 * used.terms;
          const std::size_t n = inputs.between(1, 300);
          const Matrix<double> a = inputs.matrix(24, n, input), b = inputs.matrix(n, 24, input);
          const auto finite = [](double x) { return std::isfinite(x); };
          if (!std::ranges::all_of(a.values, finite) || !std::ranges::all_of(b.values, finite)) {
            continue;  // beyond the format
          }
          ++calls;
          const Tensor narrow_a = converted<float>(a), narrow_b = converted<float>(b);
          const Tensor c = mma_product(view(narrow_a), view(narrow_b), used);
          const Matrix<double> truth = product(view(a), view(b));
          const Matrix<double> bound = mma_bound(view(a), view(b), used);
          for (std::size_t e = 0; e < c.size(); ++e) {
            ASSERT_LE(std::fabs(static_cast<double>(c.values[e]) - truth.values[e]),
                      bound.values[e])
                << name << " " << input.name << " " << kind << " n = " << n;
          }
        }
      }
    }
  }
  EXPECT_GE(calls, effort(2) * 50);
}

}  // namespace
}  // namespace plumb
