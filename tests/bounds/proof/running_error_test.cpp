// Each lemma of RunningError: the FP32 result of operands anywhere within their bounds lies within
// the result's bound, and some results come near it.
#include "bounds/proof/running_error.hpp"

#include <gtest/gtest.h>

#include "bounds/examples/draw.hpp"
#include "number/exponential.hpp"
#include "number/rounding.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::running_error_test {
namespace {

// A RunningError, and a float within its bound: at an end of it, or anywhere.
struct Operand {
  RunningError near;
  float held;
};

// Half of the operands carry an error of up to `size` of themselves, booked as sums.
Operand operand(Draw& draw, double size, double smallest = -1e300) {
  Operand o{RunningError(draw.matrix(1, 1).values[0]), 0};
  if (o.near.value < smallest) o.near.value = smallest + std::fabs(o.near.value);
  o.near.value = static_cast<double>(static_cast<float>(o.near.value));
  o.held = static_cast<float>(o.near.value);
  if (draw.coin()) return o;
  const double e = std::fabs(o.near.value) * size * draw.uniform();
  const double at = draw.coin() ? (draw.coin() ? e : -e) : e * (2 * draw.uniform() - 1);
  o.held = round_to(static_cast<float>(o.near.value + at), fp32, {.how = Rounding::toward_zero});
  const double held = static_cast<double>(o.held);
  // The float nearest to that end may lie outside: the bound is what it takes.
  o.near.err(std::max(e, std::fabs(held - o.near.value)), Share::sums);
  return o;
}

struct Tally {
  double largest_ratio = 0;
  void add(const RunningError& bound, float computed, const char* what) {
    const double off = std::fabs(static_cast<double>(computed) - bound.value);
    ASSERT_LE(off, bound.worst()) << what << " " << bound.value;
    if (off > 0) largest_ratio = std::max(largest_ratio, off / bound.worst());
  }
};

constexpr double sizes[] = {0, 0x1p-23, 0x1p-12, 0x1p-4, 0.4};

TEST(RunningError, HoldsForEveryLemmaAndIsAttained) {
  Tally sum, difference, product, fused, quotient, root, exponential, logarithm, error_function,
      sigma;
  for (const char* kind : input_kinds) {
    Draw draw(kind, 11);
    for (int i = 0; i < effort(6000); ++i) {
      const double size = sizes[i % 5];
      const Operand a = operand(draw, size);
      const Operand b = operand(draw, size);
      const Operand c = operand(draw, size);
      const Operand positive = operand(draw, size, 1e-44);
      const Operand logit = operand(draw, size, -200);
      sum.add(a.near + b.near, a.held + b.held, "sum");
      difference.add(a.near - b.near, a.held - b.held, "difference");
      product.add(a.near * b.near, a.held * b.held, "product");
      fused.add(fma(a.near, b.near, c.near), std::fma(a.held, b.held, c.held), "fma");
      root.add(sqrt(positive.near), std::sqrt(positive.held), "sqrt");
      logarithm.add(log(positive.near), std::log(positive.held), "log");
      if (std::fabs(logit.held) < 80) {
        exponential.add(exp(logit.near), exp(logit.held), "exp");
      }
      error_function.add(erf(logit.near), std::erf(logit.held), "erf");
      sigma.add(sigmoid(logit.near), 1 / (1 + exp(-logit.held)), "sigmoid");
      const RunningError q = a.near / b.near;
      if (std::isfinite(q.worst())) quotient.add(q, a.held / b.held, "quotient");
      const float lesser = std::min(a.held, b.held);
      ASSERT_LE(std::fabs(static_cast<double>(lesser) - min(a.near, b.near).value),
                min(a.near, b.near).worst());
    }
  }
  // Derived: rounding and both operands can be at their ends at once; a function's ulp cannot, as
  // libraries keep to about half of it.
  for (const Tally* t : {&sum, &difference, &product, &fused, &quotient, &root}) {
    EXPECT_GT(t->largest_ratio, 0.9);
  }
  EXPECT_GT(exponential.largest_ratio, 0.45);
  EXPECT_GT(logarithm.largest_ratio, 0.45);
  EXPECT_GT(error_function.largest_ratio, 0.45);
  EXPECT_GT(sigma.largest_ratio, 0.3);
}

TEST(RunningError, SeesNothingWhereNothingIsRounded) {
  EXPECT_EQ((RunningError(3) * RunningError(0.5) + RunningError(4)).worst(), 0);
  EXPECT_EQ((RunningError(0) * RunningError(0.1F)).worst(), 0);
  EXPECT_GT(RunningError(0.1).worst(), 0);  // FP32 has no tenth
}

TEST(RunningError, HasNoBoundBeyondTheRangeOfFp32) {
  EXPECT_TRUE(std::isinf((RunningError(1e30F) * RunningError(1e30F)).worst()));
  EXPECT_TRUE(std::isinf(exp(RunningError(100)).worst()));
  RunningError near_zero(1);
  near_zero.err(2, Share::sums);
  const RunningError lost = RunningError(1) / near_zero;
  for (const RunningError& x :
       {lost, sqrt(lost), exp(lost), log(lost), sigmoid(lost), lost * RunningError(0),
        lost + RunningError(1), lost / RunningError(2), min(lost, RunningError(9)),
        min(RunningError(-9), lost)}) {
    EXPECT_FALSE(std::isfinite(x.worst()));
  }
}

TEST(RunningError, SigmoidIsBoundedFarOut) {
  for (const double z : {-3e5, -500.0, -90.0, -87.3, 90.0, 3e5}) {
    RunningError at(static_cast<double>(static_cast<float>(z)));
    at.err(std::fabs(z) * 1e-6, Share::sums);
    const RunningError s = sigmoid(at);
    const float held = 1 / (1 + exp(-static_cast<float>(z)));
    EXPECT_LE(std::fabs(static_cast<double>(held) - s.value), s.worst()) << z;
    EXPECT_LE(s.worst(), 1e-5) << z;
  }
}

TEST(RunningError, SharedNumbersAddUpAndOthersByTheirSquares) {
  RunningError x(1);
  x.err(1e-6, Share::sums);
  const auto by_chance = [](const RunningError& y) { return y.common + std::sqrt(y.energy); };
  const RunningError apart = added(x, x, 1, Share::steps);
  const RunningError same = added(with_named_error(x), with_named_error(x), 1, Share::steps);
  EXPECT_NEAR(by_chance(apart), std::sqrt(2) * 1e-6, 2e-8);
  EXPECT_NEAR(by_chance(same), 2e-6, 2e-7);
}

}  // namespace
}  // namespace plumb::running_error_test
