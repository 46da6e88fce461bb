// Are products of infinities and NaN, and sums beyond the largest number, held against IEEE 754?
#include "probe/special.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/rooms.hpp"

namespace plumb::probe::special_test {
namespace {

std::string observed(const Subject& subject) {
  Calibration found;
  Findings findings(found, "a test");
  find_special(subject, findings);
  return found.observed.empty() ? "" : found.observed[0].as;
}

template <class F>
Subject changed(F f, const Format& input = fp32) {
  Subject subject = subject_of(Emulated{}, input);
  subject.multiply = [f, sound = subject.multiply](const std::vector<Operands>& asked) {
    std::vector<Tensor> all = sound(asked);
    for (Tensor& c : all) std::ranges::transform(c.values, c.values.begin(), f);
    return all;
  };
  return subject;
}

TEST(Special, NumbersOfIeeeAreToldInOneSentence) {
  for (const Format& input : {fp32, bf16, fp16, e4m3fn}) {
    EXPECT_EQ(observed(subject_of(Emulated{}, input)), "as IEEE 754 says") << input.name;
  }
  EXPECT_EQ(observed(subject_of(Emulated{}, e2m1)), "");  // has none of them
}

TEST(Special, WhatIsSaturatedOrLostIsNamed) {
  constexpr float most = std::numeric_limits<float>::max();
  const auto saturated = [](float x) { return std::isinf(x) ? std::copysign(most, x) : x; };
  const std::string said = observed(changed(saturated));
  EXPECT_NE(said.find("infinity gives 3.4028235e+38"), std::string::npos) << said;
  EXPECT_NE(said.find("a product beyond the largest number gives 3.4028235e+38"), said.npos);
  EXPECT_NE(said.find("a sum below the lowest number gives -3.4028235e+38"), said.npos);
  const auto lost = [](float x) { return std::isnan(x) ? 0 : x; };
  EXPECT_EQ(observed(changed(lost, e4m3fn)), "a NaN gives 0; a NaN times zero gives 0");
}

}  // namespace
}  // namespace plumb::probe::special_test
