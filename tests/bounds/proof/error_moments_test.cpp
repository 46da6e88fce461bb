// Each lemma of ErrorMoments: sensitivities against differences, roundings against those of floats.
#include "bounds/proof/error_moments.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "bounds/examples/draw.hpp"
#include "bounds/proof/running_error.hpp"
#include "number/exponential.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::error_moments_test {
namespace {

constexpr double deviation = 0x1p-12;  // next to which roundings are nothing

ErrorMoments source(double x) {
  return with_named_error(ErrorMoments::of(x, 0, deviation * deviation));
}

struct Step {
  const char* name;
  std::function<ErrorMoments(const ErrorMoments&)> moment;
  std::function<double(double)> value;
};

const std::vector<Step> steps{
    {"sum", [](auto& x) { return x + ErrorMoments(3); }, [](double x) { return x + 3; }},
    {"added to", [](auto& x) { return ErrorMoments(3) + x; }, [](double x) { return 3 + x; }},
    {"difference", [](auto& x) { return ErrorMoments(3) - x; }, [](double x) { return 3 - x; }},
    {"negative", [](auto& x) { return -x; }, [](double x) { return -x; }},
    {"product", [](auto& x) { return x * ErrorMoments(3); }, [](double x) { return 3 * x; }},
    {"square", [](auto& x) { return x * x; }, [](double x) { return x * x; }},
    {"cube", [](auto& x) { return x * x * x; }, [](double x) { return x * x * x; }},
    {"quotient", [](auto& x) { return x / ErrorMoments(3); }, [](double x) { return x / 3; }},
    {"divisor", [](auto& x) { return ErrorMoments(3) / x; }, [](double x) { return 3 / x; }},
    {"fused", [](auto& x) { return fma(x, ErrorMoments(3), x); }, [](double x) { return 4 * x; }},
    {"what cancels", [](auto& x) { return x / (x + x); }, [](double) { return 0.5; }},
    {"root", [](auto& x) { return sqrt(x); }, [](double x) { return std::sqrt(x); }},
    {"exp", [](auto& x) { return exp(x); }, [](double x) { return std::exp(x); }},
    {"log", [](auto& x) { return log(x); }, [](double x) { return std::log(x); }},
    {"erf", [](auto& x) { return erf(x); }, [](double x) { return std::erf(x); }},
    {"sigmoid", [](auto& x) { return sigmoid(x); },
     [](double x) { return 1 / (1 + std::exp(-x)); }},
};

TEST(ErrorMoments, KnowsHowResultsMoveWithASource) {
  for (const Step& step : steps) {
    for (const double x : {0.3, 1.7, 5.0}) {
      const ErrorMoments y = step.moment(source(x));
      const double slope = (step.value(x + 1e-5) - step.value(x - 1e-5)) / 2e-5;
      ASSERT_EQ(y.sources.size(), 1U) << step.name;
      EXPECT_NEAR(y.sources[0].deviation, slope * deviation, 1e-6 * deviation) << step.name << x;
      EXPECT_NEAR(y.value, step.value(x), 1e-15 * std::fabs(y.value)) << step.name;
    }
  }
}

TEST(ErrorMoments, KnowsHowResultsMoveWithTheirOwnRoundings) {
  const double own = deviation * deviation;
  for (const Step& step : steps) {
    if (step.name == std::string("cube") || step.name == std::string("fused") ||
        step.name == std::string("what cancels")) {
      continue;  // what is used twice has to be shared
    }
    const double slope = (step.value(1.7 + 1e-5) - step.value(1.7 - 1e-5)) / 2e-5;
    const ErrorMoments y = step.moment(ErrorMoments::of(1.7, 0, own));
    EXPECT_NEAR(y.own, slope * slope * own, 1e-4 * slope * slope * own) << step.name;
  }
}

TEST(ErrorMoments, KnowsWhatABiasBecomes) {
  for (const Step& step : steps) {
    const ErrorMoments y = step.moment(ErrorMoments::of(1.7, 1e-3, deviation * deviation));
    EXPECT_NEAR(y.bias, step.value(1.7 + 1e-3) - step.value(1.7), 1e-9) << step.name;
  }
}

TEST(ErrorMoments, KeepsSourcesApartAndAddsTheirSquares) {
  const ErrorMoments x = source(1), y = source(2);
  const ErrorMoments both = x * ErrorMoments(3) + y * ErrorMoments(4);
  EXPECT_EQ(both.sources.size(), 2U);
  EXPECT_NEAR(std::sqrt(both.variance()), 5 * deviation, 1e-4 * deviation);
  EXPECT_NEAR(std::sqrt((y - x).variance()), std::sqrt(2) * deviation, 1e-4 * deviation);
  EXPECT_NEAR(std::sqrt((both - x - x - x).variance()), 4 * deviation, 1e-4 * deviation);
  EXPECT_NEAR((both + both).variance(), 4 * both.variance(), 1e-3 * both.variance());
  const ErrorMoments alone = with_unnamed_errors(both);
  EXPECT_TRUE(alone.sources.empty());
  EXPECT_EQ(alone.variance(), both.variance());
  EXPECT_TRUE(with_named_error(ErrorMoments(3)).sources.empty());  // nothing to share
}

// Errors of floats in units of what the lemma says, over random operands.
class Scores {
 public:
  void add(const ErrorMoments& m, float computed) {
    const double error = static_cast<double>(computed) - m.value - m.bias;
    if (m.variance() == 0) {
      EXPECT_LE(std::fabs(error), 1e-14 * std::fabs(m.value));
      return;
    }
    const double z = error / std::sqrt(m.variance());
    ++n_;
    sum_ += z;
    squares_ += z * z;
    fourth_ += z * z * z * z;
  }
  // Mean 0 and mean square 1 up to five standard errors; few enough that this says something.
  void expect_right(const char* what, double more = 1e-3) const {
    const double mean_square = squares_ / n_;
    const double off = 5 * std::sqrt((fourth_ / n_ - mean_square * mean_square) / n_);
    EXPECT_LT(off, 0.1) << what;
    EXPECT_NEAR(mean_square, 1, off + more) << what;
    EXPECT_NEAR(sum_ / n_, 0, 5 / std::sqrt(n_)) << what;
  }

 private:
  double n_ = 0, sum_ = 0, squares_ = 0, fourth_ = 0;
};

TEST(ErrorMoments, RoundsAsFloatsDo) {
  for (const Format& format : {fp32, bf16}) {
    Scores sum, product, quotient, fused, root, chain, halved;
    Draw draw("plain", 3);
    for (int i = 0; i < std::max(20'000, effort(20'000)); ++i) {
      const Matrix<double> x = draw.matrix(1, 4, format);
      const auto f = [&](std::size_t k) { return static_cast<float>(x.values[k]); };
      const auto m = [&](std::size_t k) { return ErrorMoments::input(x.values[k]); };
      if (x.values[1] == 0) continue;
      sum.add(m(0) + m(1), f(0) + f(1));
      product.add(m(0) * m(1), f(0) * f(1));
      fused.add(fma(m(0), m(1), m(2)), std::fma(f(0), f(1), f(2)));
      quotient.add(m(0) / m(1), f(0) / f(1));
      root.add(sqrt(m(0) * m(0) + m(1) * m(1)), std::sqrt(f(0) * f(0) + f(1) * f(1)));
      chain.add((m(0) / m(1) - m(2)) * m(3), (f(0) / f(1) - f(2)) * f(3));
      halved.add(m(0) / m(1) / ErrorMoments(2) * ErrorMoments(8), f(0) / f(1) / 2 * 8);
    }
    quotient.expect_right("quotient");
    chain.expect_right("chain");
    halved.expect_right("halved");
    root.expect_right("root");
    if (format == bf16) continue;  // what follows is nearly always exact
    fused.expect_right("fused");
    sum.expect_right("sum");
    product.expect_right("product");
  }
}

// What the header assumes of functions: errors are those of a rounding.
TEST(ErrorMoments, FunctionsOfThisMachineRoundOnce) {
  Scores exponential, logarithm, error_function, sigma;
  Draw draw("plain", 5);
  for (int i = 0; i < std::max(40'000, effort(40'000)); ++i) {
    const double x = draw.matrix(1, 1).values[0];
    const auto f = static_cast<float>(x);
    const ErrorMoments m = ErrorMoments::input(x);
    exponential.add(exp(m), exp(f));
    logarithm.add(log(m * m), std::log(f * f));
    error_function.add(erf(m), std::erf(f));
    sigma.add(sigmoid(m), 1 / (1 + exp(-f)));
  }
  exponential.expect_right("exp");
  logarithm.expect_right("log");
  error_function.expect_right("erf", 0.1);  // 0.05 here: some results are the second nearest
  sigma.expect_right("sigmoid");
  EXPECT_EQ(exp(ErrorMoments(0)).variance() + log(ErrorMoments(1)).variance(), 0);
}

// A large sum of FP32 and addends of some spacings and less, which are lost or rounded every time.
TEST(ErrorMoments, ForetellsSumsThatStagnate) {
  Draw draw("plain", 7);
  for (const double size : {0.3, 0.7, 2.0, 3.9}) {
    ErrorMoments m = ErrorMoments::input(0x1p12);
    float held = 0x1p12F;
    for (int i = 0; i < 1000; ++i) {
      const float small = static_cast<float>(size * 0x1p-11 * (0.5 + draw.uniform() / 2));
      m += ErrorMoments::input(small);
      held += small;
    }
    const double error = static_cast<double>(held) - m.value;
    EXPECT_NEAR(error, m.bias, 1e-9) << size;
    EXPECT_EQ(m.variance(), 0) << size;
  }
}

TEST(ErrorMoments, LetsTiesAndUncertainAddendsGoEitherWay) {
  const double h = 0x1p-23;
  const ErrorMoments one = ErrorMoments(1) + ErrorMoments::input(0);
  const ErrorMoments tie = one + ErrorMoments::input(h / 2);
  EXPECT_EQ(tie.bias, 0);
  EXPECT_EQ(tie.variance(), h * h / 4);
  // An addend that lies one deviation below the middle: normal tables say 15.87 %.
  const double d = h / 16;
  const ErrorMoments near_middle = one + ErrorMoments::of(h / 2 - d, 0, d * d);
  EXPECT_NEAR(near_middle.bias, 0.158655 * h - (h / 2 - d), 1e-5 * h);
  EXPECT_NEAR(near_middle.variance(), (1 - 0.158655) * (1 - 0.158655) / 2 * h * h, 1e-5 * h * h);
  // The smaller operand may come first, and be subtracted.
  const ErrorMoments first = ErrorMoments::input(-0.2 * h) - one;
  EXPECT_EQ(first.value, -1 - 0.2 * h);
  EXPECT_EQ(first.value + first.bias, -1);
}

// An addend that goes the less likely way is off by nearly a spacing: in deviations that must be so
// much that a normal number gets there as often.
TEST(ErrorMoments, PromisesTailsOfWhatGoesEitherWay) {
  const double h = 0x1p-23, d = h / 64;
  const ErrorMoments one = ErrorMoments(1) + ErrorMoments::input(0);
  for (const double t : {1.2, 2.0, 3.0, 4.0, 5.0}) {
    for (const double side : {-1.0, 1.0}) {
      const double addend = h / 2 + side * t * d;
      const ErrorMoments sum = one + ErrorMoments::of(addend, 0, d * d);
      const double unlikely = std::erfc(t / std::sqrt(2)) / 2;
      const double mean = addend + sum.bias;  // of the spacings taken, without the one
      EXPECT_NEAR(mean, side < 0 ? unlikely * h : (1 - unlikely) * h, 1e-9 * h);
      const double off = std::fabs((side < 0 ? h : 0) - mean);
      const double promised = std::erfc(off / std::sqrt(2 * sum.variance()));
      EXPECT_GT(promised, unlikely) << t;
      EXPECT_LT(promised, 1.25 * unlikely) << t;
    }
  }
}

TEST(ErrorMoments, HoldsWhatTheCodeAloneDetermines) {
  const ErrorMoments tenth(0.1);
  EXPECT_EQ(tenth.value + tenth.bias, static_cast<double>(0.1F));
  const ErrorMoments scale = ErrorMoments(1) / sqrt(ErrorMoments(84));
  EXPECT_EQ(scale.variance(), 0);
  EXPECT_EQ(scale.value + scale.bias, static_cast<double>(1 / std::sqrt(84.0F)));
  EXPECT_GT((ErrorMoments::input(1) / sqrt(ErrorMoments::input(84))).variance(), 0);
}

// A constant loses the same of itself each time, however large.
TEST(ErrorMoments, ForetellsWhatAConstantLoses) {
  Draw draw("positive", 9);
  for (int i = 0; i < 100; ++i) {
    const auto x = static_cast<float>(1 + draw.uniform());
    const ErrorMoments sum = ErrorMoments::input(x) + ErrorMoments(1e-6);
    EXPECT_EQ(sum.variance(), 0);
    EXPECT_NEAR(static_cast<double>(x + 1e-6F), sum.value + sum.bias, 1e-15);
  }
}

// k^2 of odd k ends in 001: a chain of them leans one way, by many deviations of what chance does.
TEST(ErrorMoments, ForetellsSumsOfSquaresOfShortNumbers) {
  Draw draw("positive", 10);
  for (const Format& format : {bf16, fp16}) {
    const Matrix<double> x = draw.matrix(1, 2000, format);
    ErrorMoments chain;
    float held = 0;
    for (const double v : x.values) {
      const ErrorMoments m = ErrorMoments::input(v);
      chain = fma(m, m, chain);
      held = std::fma(static_cast<float>(v), static_cast<float>(v), held);
    }
    EXPECT_EQ(chain.variance(), 0);
    EXPECT_EQ(static_cast<double>(held), chain.value + chain.bias);
    EXPECT_NE(chain.bias, 0);
  }
}

TEST(ErrorMoments, HoldsZeroWhereFp32Does) {
  for (const ErrorMoments& zero :
       {ErrorMoments::input(0x1p-80) * ErrorMoments::input(0x1p-80), exp(ErrorMoments::input(-120)),
        sigmoid(ErrorMoments::input(-120)), sigmoid(ErrorMoments::input(-1e4)),
        ErrorMoments::input(0) * exp(ErrorMoments(1))}) {
    EXPECT_EQ(zero.value + zero.bias, 0);
    EXPECT_EQ(zero.variance(), 0);
  }
  EXPECT_GT((ErrorMoments::input(0x1.1p-70) * ErrorMoments::input(0x1.1p-75)).variance(), 0);
}

TEST(ErrorMoments, HasNoVarianceBeyondTheRange) {
  const ErrorMoments large = ErrorMoments::input(1e30F), unsure = ErrorMoments::of(0.1, 0, 0.01);
  for (const ErrorMoments& x :
       {large * large, exp(ErrorMoments::input(100)), ErrorMoments::input(1) / ErrorMoments(0),
        ErrorMoments::input(1) / unsure, ErrorMoments(1e60)}) {
    EXPECT_FALSE(std::isfinite(x.variance()));
  }
  EXPECT_FALSE(std::isfinite(ErrorMoments::input(500).rounded(e4m3fn).variance()));
}

}  // namespace
}  // namespace plumb::error_moments_test
