// Are facts of devices that are not there found from their products alone, and no wrong one?
#include "probe/calibrate.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "probe/devices.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::probe::calibrate_test {
namespace {

std::string fact_of(const Calibration& found, const std::string& name) {
  const Fact* fact = found.card.fact(name);
  return fact == nullptr ? "" : fact->value;
}

Calibration calibrated(const Emulated& device, const Format& input, std::size_t longest = 200) {
  CalibrateOptions options;
  options.longest = longest;
  return calibrate(subject_of(device, input), options);
}

Order order_of(const std::string& text, Rounding how = Rounding::nearest_even) {
  Order order = *parse_order(text);
  order.rounding = how;
  return order;
}

TEST(Calibrate, FindsOrderAndRoundingOfSums) {
  for (const std::string text : {"sequential", "pairwise", "blocked 32", "split 4",
                                 "lanes 8 strided", "lanes 6 sequential", "lanes 16 pairwise"}) {
    for (const Rounding how :
         {Rounding::nearest_even, Rounding::toward_zero, Rounding::away, Rounding::stochastic}) {
      const Calibration found = calibrated({.order = order_of(text, how)}, fp32);
      EXPECT_EQ(fact_of(found, "order_gemm"), text + " up to 200") << name_of(how);
      EXPECT_EQ(fact_of(found, "rounding"), name_of(how)) << text;
      EXPECT_EQ(found.validation.outside, 0U);
      EXPECT_TRUE(found.validation.refused.empty()) << found.validation.refused;
    }
  }
}

// Each recovered fact is right, whatever the device; a card's bounds hold; most facts are found.
TEST(Calibrate, SaysNothingWrongOfHiddenDevices) {
  std::size_t facts = 0, known = 0;
  const auto draws = static_cast<unsigned>(effort(40));
  for (unsigned seed = 1; seed <= draws; ++seed) {
    const HiddenDevice hidden = drawn_device(seed);
    SCOPED_TRACE(std::to_string(seed) + ": " + hidden.text() + ", " +
                 std::string(hidden.input.name));
    const Calibration found = calibrated(hidden.device, hidden.input);
    for (const Recovered& fact : held_against(hidden, found)) {
      EXPECT_FALSE(fact.wrong) << fact.fact << " is " << fact.hidden << ", found " << fact.found;
      ++facts;
      known += fact.found.empty() ? 0 : 1;
    }
    EXPECT_EQ(found.validation.outside, 0U) << found.validation.worst;
  }
  EXPECT_GT(10 * known, 8 * facts);
}

// A library that takes longer sums in another order: the first one is claimed as far as it goes.
TEST(Calibrate, AnOrderIsClaimedUpToTheLengthThatItHolds) {
  Subject subject = subject_of(Emulated{.order = order_of("blocked 16")}, fp32);
  const auto shorter = subject.multiply;
  const auto longer = subject_of(Emulated{.order = order_of("lanes 4 strided")}, fp32).multiply;
  subject.multiply = [shorter, longer](const std::vector<Operands>& asked) {
    std::vector<Tensor> all;
    for (const Operands& each : asked) {
      all.push_back((each.a.cols <= 100 ? shorter : longer)({each})[0]);
    }
    return all;
  };
  CalibrateOptions options;
  options.longest = 200;
  const Calibration found = calibrate(subject, options);
  EXPECT_EQ(fact_of(found, "order_gemm"), "blocked 16 up to 100");
  EXPECT_EQ(found.validation.outside, 0U);
  EXPECT_EQ(found.validation.equal, 1);
}

// Of a unit whose sums the masks cannot see to the second step, 24 terms were claimed; it has 27.
TEST(Calibrate, ClaimsNoTermsWhereNoSumHasTwoSteps) {
  const HiddenDevice hidden = drawn_device(270);
  for (const Recovered& fact : held_against(hidden, calibrated(hidden.device, hidden.input))) {
    EXPECT_FALSE(fact.wrong) << fact.fact << " is " << fact.hidden << ", found " << fact.found;
  }
}

// A device that returns nonsense has no tree: its order is named as unknown once.
TEST(Calibrate, WhatContradictsItselfIsNamedOnce) {
  Subject subject = subject_of(Emulated{}, fp32);
  subject.multiply = [sound = subject.multiply](const std::vector<Operands>& asked) {
    std::vector<Tensor> all = sound(asked);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (asked[i].a.cols < 3) continue;
      for (float& x : all[i].values) x = std::fabs(x) + 0x1p-30F;
    }
    return all;
  };
  CalibrateOptions options;
  options.longest = 16;
  const Calibration found = calibrate(subject, options);
  std::size_t named = 0;
  for (const auto& [fact, why] : found.unknown) {
    if (fact != "order_gemm") continue;
    ++named;
    EXPECT_EQ(why, "masked sums of 3 products contradict each other");
  }
  EXPECT_EQ(named, 1U);
}

// A kernel that shares out long sums among workers adds in the order in which these are done.
TEST(Calibrate, ProductsThatDifferFromRunToRunInLongSumsAloneAreSeen) {
  Subject subject = subject_of(Emulated{}, fp32);
  subject.multiply = [turn = 0](const std::vector<Operands>& asked) mutable {
    std::vector<Tensor> all;
    ++turn;
    for (const auto& [a, b] : asked) {
      Order order{.kind = Order::Kind::split, .block = 4};
      order.swapped = a.cols > 128 && turn % 2 == 0;
      all.push_back(emulated_product(view(a), view(b), {.order = order}));
    }
    return all;
  };
  CalibrateOptions options;
  options.longest = 64;
  EXPECT_TRUE(calibrate(subject, options).repeats);
  options.longest = 200;
  const Calibration found = calibrate(subject, options);
  EXPECT_FALSE(found.repeats);
  EXPECT_EQ(found.observed[0].what, "the same products again");
  EXPECT_TRUE(found.observed[0].as.starts_with("other bits, ")) << found.observed[0].as;
}

// A card with one fact changed does not pass for the device's.
TEST(Calibrate, ValidationSeesAFactThatWasChanged) {
  const auto seen = [](const HiddenDevice& hidden, const std::string& name, const char* value) {
    const Subject subject = subject_of(hidden.device, hidden.input);
    Calibration found = calibrated(hidden.device, hidden.input);
    for (Fact& fact : found.card.facts) {
      if (fact.name == name) fact.value = value;
    }
    const auto emulation = emulated_by(found.card, hidden.input);
    const std::vector<Emulated> all(emulation ? 1 : 0, emulation.value_or(Emulated{}));
    const Validation v = validate(subject, found.card, all, 200, 0, 9);
    return v.outside > 0 || v.equal < 1;
  };
  const HiddenDevice sums{{.order = order_of("blocked 32")}, fp32};
  EXPECT_FALSE(seen(sums, "rounding", "nearest_even"));
  EXPECT_TRUE(seen(sums, "rounding", "toward_zero"));
  EXPECT_TRUE(seen(sums, "order_gemm", "blocked 31 up to 200"));
  EXPECT_TRUE(seen(sums, "order_gemm", "sequential up to 200"));
  EXPECT_TRUE(seen(sums, "order_gemm", "blocked 32 swapped up to 200"));
  EXPECT_TRUE(seen(sums, "fma", "any"));
  EXPECT_TRUE(seen(sums, "subnormals", "flushed"));
  const HiddenDevice unit{{.unit = Mma{bf16, 16, 25, 23, 64}}, bf16};
  EXPECT_FALSE(seen(unit, "promoted_after", "64"));
  EXPECT_TRUE(seen(unit, "promoted_after", "128"));
  EXPECT_TRUE(seen(unit, "mma_bf16", "terms 8 grid 25 kept 23"));
  EXPECT_TRUE(seen(unit, "mma_bf16", "terms 16 grid 24 kept 23"));
  EXPECT_TRUE(seen(unit, "mma_bf16", "terms 16 grid 25 kept 22"));
}

}  // namespace
}  // namespace plumb::probe::calibrate_test
