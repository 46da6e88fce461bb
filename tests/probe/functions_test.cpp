// Are errors of functions found in ulps, and claimed as what they are?
#include "probe/functions.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "bounds/proof/exact.hpp"
#include "number/exponential.hpp"
#include "probe/calibrate.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::probe::functions_test {
namespace {

const KnownFunction& known(const std::string& name) {
  for (const KnownFunction& each : known_functions()) {
    if (each.name == name) return each;
  }
  throw std::invalid_argument(name);
}

template <class F>
Function each(F f) {
  return [f](const std::vector<float>& x, const std::vector<float>& y) {
    std::vector<float> out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = f(x[i], y.empty() ? 0 : y[i]);
    return out;
  };
}

FunctionErrors errors_with(const std::string& name, const Function& device) {
  const Arguments asked = arguments_of(known(name), 20000, 3);
  return errors_of(known(name), asked, device(asked.first, asked.second));
}

TEST(Functions, CorrectRoundingIsHalfAnUlp) {
  const auto root = each([](float x, float) { return std::sqrt(x); });
  EXPECT_EQ(errors_with("sqrt", root).claim(), 0.5);
  const auto quotient = each([](float x, float y) { return x / y; });
  EXPECT_EQ(errors_with("divide", quotient).claim(), 0.5);
  // Ours is within (1/2 + 2^-16) ulp, which no quarter but the next holds.
  const auto ours = errors_with("exp", each([](float x, float) { return plumb::exp(x); }));
  EXPECT_GT(ours.largest, 0.499);
  EXPECT_LT(ours.largest, 0.5 + 0x1p-16);
}

TEST(Functions, AnErrorOfSomeUlpsIsFoundWhereItIs) {
  const auto off = each([](float x, float) {
    const float e = static_cast<float>(std::exp(static_cast<double>(x)));
    return x == 2.5F ? e + 3 * static_cast<float>(ulp(static_cast<double>(e), fp32)) : e;
  });
  const FunctionErrors errors = errors_with("exp", off);
  EXPECT_EQ(errors.x, 2.5F);
  EXPECT_GE(errors.largest, 2.5);
  EXPECT_GE(errors.claim(), 2.5);
  EXPECT_LE(errors.claim(), 3.5);
  EXPECT_EQ(errors.beyond(*errors.claim()), 0U);
  EXPECT_EQ(errors.beyond(2), 2U);  // BF16 has 2.5, and so has FP16
}

TEST(Functions, NoNumberIsNoClaim) {
  const auto broken = each([](float x, float) { return x > 80 ? NAN : std::exp(x); });
  EXPECT_FALSE(errors_with("exp", broken).claim());
}

// FP64 is exact enough to tell ulps of FP32.
TEST(Functions, TheTruthIsMpfrs) {
  const Arguments asked = arguments_of(known("exp"), 500, 5);
  for (std::size_t i = asked.first.size() - 500; i < asked.first.size(); ++i) {
    const auto x = static_cast<double>(asked.first[i]);
    EXPECT_NEAR(known("exp").exact(x, 0), exact_exp(x), 0x1p-50 * exact_exp(x));
  }
  const Arguments positive = arguments_of(known("log"), 500, 5);
  for (std::size_t i = positive.first.size() - 500; i < positive.first.size(); ++i) {
    const auto x = static_cast<double>(positive.first[i]);
    EXPECT_NEAR(known("log").exact(x, 0), exact_log(x), 0x1p-50 * std::fabs(exact_log(x)));
  }
}

// A function that answers once and not again is not within its ulps.
TEST(Functions, ThatFallSilentAreCounted) {
  Subject subject = subject_of(Emulated{}, fp32);
  subject.functions["sqrt"] = [asked = std::make_shared<int>(0)](const std::vector<float>& x,
                                                                 const std::vector<float>&) {
    std::vector<float> y;
    if (++*asked > 1) return y;
    for (const float each : x) y.push_back(std::sqrt(each));
    return y;
  };
  CalibrateOptions options;
  options.longest = 8;
  options.arguments = 1000;
  const Calibration found = calibrate(subject, options);
  EXPECT_EQ(found.card.fact("sqrt_ulp")->value, "0.5");
  EXPECT_GT(found.validation.arguments, 1000U);
  EXPECT_EQ(found.validation.function_errors, found.validation.arguments);
  EXPECT_FALSE(found.validation.holds());
}

TEST(Functions, BecomeFactsOfTheCard) {
  Subject subject = subject_of(Emulated{}, fp32);
  subject.functions["sqrt"] = each([](float x, float) { return std::sqrt(x); });
  subject.functions["log"] = each([](float x, float) {
    const float y = static_cast<float>(std::log(static_cast<double>(x)));
    return std::nextafter(std::nextafter(y, 1e30F), 1e30F);
  });
  CalibrateOptions options;
  options.longest = 8;
  options.arguments = 2000;
  const Calibration found = calibrate(subject, options);
  EXPECT_EQ(found.card.fact("sqrt_ulp")->value, "0.5");
  EXPECT_EQ(found.card.fact("log_ulp")->value, "2.5");
  EXPECT_EQ(found.card.fact("exp_ulp"), nullptr);
  EXPECT_GT(found.validation.arguments, 4000U);
  EXPECT_EQ(found.validation.function_errors, 0U);
  Machine boast = found.card;
  for (Fact& fact : boast.facts) {
    if (fact.name == "log_ulp") fact.value = "1";
  }
  Validation seen;
  validate_functions(subject, boast, 2000, 9, seen);
  EXPECT_GT(seen.function_errors, 2000U);
}

}  // namespace
}  // namespace plumb::probe::functions_test
