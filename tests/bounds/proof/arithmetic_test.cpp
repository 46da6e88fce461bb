// Do the lemmas hold for the arithmetic that is in force: functions of more ulp, flushed subnormals,
// products that are rounded before they are added?
#include "bounds/proof/arithmetic.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "bounds/examples/example.hpp"
#include "bounds/proof/running_error.hpp"
#include "bounds/sum.hpp"
#include "number/rounding.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::arithmetic_test {
namespace {

// x as a machine holds it that flushes.
float flushed(float x) { return std::fabs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x; }

double off(float computed, const RunningError& bound) {
  return std::fabs(static_cast<double>(computed) - bound.value);
}

TEST(Arithmetic, IsInForceWhileItsScopeLives) {
  const RunningError x = RunningError::of(0.7);
  const double promised = exp(x).worst();
  {
    Arithmetic fast;
    fast.exp_ulp = 3;
    const ArithmeticScope scope(fast);
    EXPECT_DOUBLE_EQ(exp(x).worst(), 3 * promised);
  }
  EXPECT_EQ(exp(x).worst(), promised);
}

// Functions that are off by all that a card allows, and by a little more.
TEST(Arithmetic, FunctionsMayErrByWhatIsSaidAndNoMore) {
  Arithmetic fast;
  fast.exp_ulp = 2;
  fast.exp_ulp_per_unit = 0.5;
  fast.log_ulp = 3;
  fast.tanh_ulp = 2;
  fast.erf_ulp = 1;
  fast.erf_absolute = 0x1p-20;
  fast.divide_ulp = 2;
  fast.sqrt_ulp = 3;
  const ArithmeticScope scope(fast);
  Draw draw("plain", 3);
  for (int i = 0; i < effort(2000); ++i) {
    const double x = static_cast<double>(static_cast<float>(4 * draw.normal()));
    const double y = 0.5 + draw.uniform();
    const double positive = static_cast<double>(static_cast<float>(y));
    const auto check = [&](const RunningError& bound, double exact, double ulps, const char* what) {
      const double spacing = ulp(exact, fp32);
      EXPECT_GE(bound.worst(), ulps * spacing * (1 - 1e-6)) << what << " " << x;
      EXPECT_LE(bound.worst(), 2.01 * ulps * spacing) << what << " " << x;  // an edge of a binade
    };
    check(exp(RunningError(x)), std::exp(x), 2 + 0.5 * std::fabs(x), "exp");
    check(log(RunningError(positive)), std::log(positive), 3, "log");
    check(tanh(RunningError(x)), std::tanh(x), 2, "tanh");
    check(RunningError(x) / RunningError(positive), x / positive, 2, "quotient");
    check(sqrt(RunningError(positive)), std::sqrt(positive), 3, "root");
    EXPECT_GE(erf(RunningError(x)).worst(), 0x1p-20);
  }
}

TEST(Arithmetic, TanhIsBoundedWhereverItsArgumentLies) {
  double largest = 0;
  for (const char* kind : {"plain", "positive", "spread", "tiny"}) {
    Draw draw(kind, 5);
    for (int i = 0; i < effort(4000); ++i) {
      RunningError x(draw.matrix(1, 1).values[0]);
      const double e = std::fabs(x.value) * 0x1p-10 * draw.uniform();
      const auto held = static_cast<float>(x.value + (draw.coin() ? e : -e));
      x.err(std::max(e, std::fabs(static_cast<double>(held) - x.value)), Share::sums);
      const RunningError y = tanh(x);
      const float computed = static_cast<float>(std::tanh(static_cast<double>(held)));
      ASSERT_LE(off(computed, y), y.worst()) << kind << " " << x.value;
      if (x.value != 0) largest = std::max(largest, off(computed, y) / y.worst());
    }
  }
  EXPECT_GT(largest, 0.7);
}

TEST(Arithmetic, CoversWhatAFlushLoses) {
  Arithmetic machine;
  machine.flushes = true;
  std::size_t lost = 0;  // results that the bound of a machine that keeps them does not cover
  for (const char* kind : {"tiny", "spread", "plain"}) {
    Draw draw(kind, 7);
    for (int i = 0; i < effort(4000); ++i) {
      const Matrix<double> x = draw.matrix(1, 3);
      const double s = std::ldexp(1.0, -static_cast<int>(draw.between(0, 126)));
      float h[3];
      for (int k = 0; k < 3; ++k) h[k] = flushed(static_cast<float>(x.values[k] * s));
      const auto bounds = [&] {
        RunningError a(static_cast<float>(x.values[0] * s)), b(static_cast<float>(x.values[1] * s)),
            c(static_cast<float>(x.values[2] * s));
        return std::array{a + b, a * b, fma(a, b, c), a / (b + RunningError(1)), a - c};
      };
      const float computed[] = {flushed(h[0] + h[1]), flushed(h[0] * h[1]),
                                flushed(std::fma(h[0], h[1], h[2])),
                                flushed(h[0] / flushed(h[1] + 1)), flushed(h[0] - h[2])};
      const auto kept = bounds();
      const ArithmeticScope scope(machine);
      const auto covered = bounds();
      for (std::size_t k = 0; k < covered.size(); ++k) {
        ASSERT_LE(off(computed[k], covered[k]), covered[k].worst()) << kind << " step " << k;
        lost += off(computed[k], kept[k]) > kept[k].worst() ? 1 : 0;
      }
    }
  }
  EXPECT_GT(lost, 0U) << "nothing was flushed";
}

// A result that is stored in BF16 may be flushed there, too. It is counted where the number is read or made.
TEST(Arithmetic, CoversWhatAFlushedCastLoses) {
  Arithmetic machine;
  machine.flushes = true;
  const Matrix<double> x(1, 1, 0x1p-127);
  const auto bound = [&](const Format& to) {
    return tolerance_of(Example{"cast", {x}, {}, {1, fp32, to}})->bound[0].values[0];
  };
  EXPECT_EQ(bound(bf16), 0);
  const ArithmeticScope scope(machine);
  EXPECT_GE(bound(bf16), 0x1p-127);
  EXPECT_LE(bound(bf16), 0x1p-125);
}

// Whether a multiply-add is fused or not, the bound of what need not be covers both.
TEST(Arithmetic, CoversProductsThatAreRounded) {
  Arithmetic machine;
  machine.fuses = false;
  std::size_t outside = 0;
  for (const char* kind : input_kinds) {
    Draw draw(kind, 9);
    for (int i = 0; i < effort(3000); ++i) {
      const Matrix<double> x = draw.matrix(1, 3);
      const auto h = [&](int k) {
        return static_cast<float>(x.values[static_cast<std::size_t>(k)]);
      };
      const volatile float product = h(0) * h(1);
      const float rounded_twice = product + h(2), fused = std::fma(h(0), h(1), h(2));
      const auto bound = [&] {
        return fma(RunningError(h(0)), RunningError(h(1)), RunningError(h(2)));
      };
      const RunningError once = bound();
      const ArithmeticScope scope(machine);
      const RunningError either = bound();
      ASSERT_LE(off(rounded_twice, either), either.worst()) << kind;
      ASSERT_LE(off(fused, either), either.worst()) << kind;
      outside += off(rounded_twice, once) > once.worst() ? 1 : 0;
    }
  }
  EXPECT_GT(outside, 0U);
}

// The sum of 2^-126 and -1.5 x 2^-126 is flushed.
TEST(Arithmetic, CoversASumThatFlushes) {
  Arithmetic machine;
  machine.flushes = true;
  const ArithmeticScope scope(machine);
  SumInAnyOrder sum;
  sum.add(0x1p-126);
  sum.add(-0x1.8p-126);
  EXPECT_GE(sum.total().worst(), 0x1p-127);
}

// A product whose operands, products and sums are flushed.
TEST(Arithmetic, CoversAProductThatFlushes) {
  Arithmetic machine;
  machine.flushes = true;
  std::size_t outside = 0;
  for (int seed = 1; seed <= effort(40); ++seed) {
    Draw draw("plain", static_cast<unsigned>(seed));
    const std::size_t k = draw.between(1, 40);
    Example e{"gemm",
              {draw.matrix(3, k), draw.matrix(k, 3)},
              {{"transpose_a", 0}, {"transpose_b", 0}},
              {1, fp32, fp32}};
    const bool operands = draw.coin();
    for (double& x : e.inputs[0].values) x = std::ldexp(x, operands ? -127 : -70);
    for (double& x : e.inputs[1].values) x = std::ldexp(x, operands ? 30 : -56);
    for (Matrix<double>& m : e.inputs) {
      for (double& x : m.values) x = static_cast<double>(static_cast<float>(x));
    }
    Matrix<float> c(3, 3);
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) {
        for (std::size_t l = 0; l < k; ++l) {
          const float a = flushed(static_cast<float>(e.inputs[0](i, l))),
                      b = flushed(static_cast<float>(e.inputs[1](l, j)));
          c(i, j) = flushed(c(i, j) + flushed(a * b));
        }
      }
    }
    Comparison kept, covered;
    judge(e, {c}, kept);
    outside += kept.violations;
    const ArithmeticScope scope(machine);
    judge(e, {c}, covered);
    EXPECT_EQ(covered.violations, 0U) << seed << " " << covered.largest_ratio;
  }
  EXPECT_GT(outside, 0U);
}

}  // namespace
}  // namespace plumb::arithmetic_test
