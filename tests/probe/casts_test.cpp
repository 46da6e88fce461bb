// Is each way to cast told from the others?
#include "probe/casts.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <memory>

#include "number/philox.hpp"
#include "number/rounding.hpp"
#include "probe/calibrate.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::probe::casts_test {
namespace {

template <class F>
Function each(F f) {
  return [f](const std::vector<float>& x, const std::vector<float>&) {
    std::vector<float> out;
    for (const float one : x) out.push_back(f(one));
    return out;
  };
}

std::string words(const Format& to, const Cast& how) {
  return words_of_cast(each([=](float x) { return round_to(x, to, how); }), to);
}

TEST(Casts, ToNearestAreToldByWhatTheyDoBeyond) {
  EXPECT_EQ(words(bf16, {}),
            "to nearest, ties to even; subnormals kept; beyond the largest number infinity; "
            "infinity infinity; NaN NaN");
  EXPECT_EQ(words(e4m3fn, {}),
            "to nearest, ties to even; subnormals kept; beyond the largest number NaN; infinity "
            "NaN; NaN NaN");
  for (const Format& to : cast_formats()) {
    EXPECT_EQ(words(to, {.saturate = true}),
              "to nearest, ties to even; subnormals kept; beyond the largest number the largest "
              "number; infinity the largest number; NaN NaN")
        << to.name;
    EXPECT_TRUE(words(to, {.flush = true})
                    .starts_with("to nearest, ties to even; subnormals "
                                 "flushed;"))
        << words(to, {.flush = true});
  }
}

TEST(Casts, ByOtherRoundingsAreTold) {
  for (const Format& to : cast_formats()) {
    EXPECT_TRUE(
        words(to, {.how = Rounding::toward_zero}).starts_with("toward zero; subnormals kept"))
        << words(to, {.how = Rounding::toward_zero});
    EXPECT_TRUE(words(to, {.how = Rounding::away}).starts_with("away from zero; subnormals kept"))
        << words(to, {.how = Rounding::away});
  }
  // Bits are cut off after half a unit is added to the size.
  const auto ties_away = each([](float x) {
    return std::isfinite(x)
               ? std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x8000U) & 0xffff0000U)
               : x;
  });
  EXPECT_TRUE(words_of_cast(ties_away, bf16)
                  .starts_with("to nearest, ties away from zero; "
                               "subnormals kept"))
      << words_of_cast(ties_away, bf16);
}

TEST(Casts, ByChanceAreToldFromThoseThatOnlyLookSo) {
  const auto drawn = [](double more) {
    return each([more, count = std::make_shared<std::uint64_t>(0)](float x) {
      const std::uint32_t word = random_block(1, ++*count)[0];
      const auto pushed = static_cast<std::uint32_t>(std::min(4294967295.0, more * word));
      return round_to(x, bf16, {.how = Rounding::stochastic, .word = pushed});
    });
  };
  EXPECT_TRUE(words_of_cast(drawn(1), bf16).starts_with("by chance, as near as a neighbour is"))
      << words_of_cast(drawn(1), bf16);
  EXPECT_TRUE(words_of_cast(drawn(0.97), bf16).starts_with("in no way that is known here"));
}

TEST(Casts, AreObservedWhereTheSubjectHasThem) {
  Subject subject = subject_of(Emulated{}, fp32);
  subject.functions["cast_fp16"] = each([](float x) { return round_to(x, fp16); });
  subject.functions["cast_bf16"] = [](const std::vector<float>&, const std::vector<float>&) {
    return std::vector<float>();
  };
  CalibrateOptions options;
  options.longest = 8;
  std::size_t casts = 0;
  for (const auto& [what, as] : calibrate(subject, options).observed) {
    casts += what.starts_with("casts") ? 1 : 0;
    if (what != "casts to fp16") continue;
    EXPECT_TRUE(as.starts_with("to nearest, ties to even")) << as;
  }
  EXPECT_EQ(casts, 1U);
}

}  // namespace
}  // namespace plumb::probe::casts_test
