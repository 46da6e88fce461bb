#include "number/format.hpp"
#include "tests/support/rooms.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace plumb::format_test {
namespace {

TEST(Format, NamesLeadToTheirRowAndBack) {
  for (const Format& format : all_formats) EXPECT_EQ(find_format(format.name)->name, format.name);
  EXPECT_EQ(find_format("fp12"), nullptr);
}

TEST(Format, RowsGiveTheStandardsNumbers) {
  EXPECT_EQ(fp64.largest(), std::numeric_limits<double>::max());
  EXPECT_EQ(fp32.largest(), static_cast<double>(std::numeric_limits<float>::max()));
  EXPECT_EQ(fp32.spacing_at_zero(), 0x1p-149);
  EXPECT_EQ(fp16.largest(), 65504);
  EXPECT_EQ(fp16.spacing_at_zero(), 0x1p-24);
  EXPECT_EQ(bf16.unit_roundoff(), 0x1p-8);
  EXPECT_EQ(bf16.spacing_at_zero(), 0x1p-133);
  EXPECT_EQ(e4m3fn.largest(), 448);
  EXPECT_EQ(e4m3fn.spacing_at_zero(), 0x1p-9);
  EXPECT_EQ(e5m2.largest(), 57344);
  EXPECT_EQ(e5m2.spacing_at_zero(), 0x1p-16);
  EXPECT_EQ(e4m3fnuz.largest(), 240);
  EXPECT_EQ(e5m2fnuz.largest(), 57344);
  EXPECT_EQ(e3m2.largest(), 28);
  EXPECT_EQ(e2m3.largest(), 7.5);
  EXPECT_EQ(e2m1.largest(), 6);
  EXPECT_EQ(e8m0.largest(), 0x1p127);
}

TEST(Format, TheUlpIsTheGapAbove) {
  EXPECT_EQ(ulp(1, bf16), 0x1p-7);
  EXPECT_EQ(ulp(-1.99, bf16), 0x1p-7);
  EXPECT_EQ(ulp(2, bf16), 0x1p-6);
  EXPECT_EQ(ulp(0, e4m3fn), 0x1p-9);
  EXPECT_EQ(ulp(0x1p-8, e4m3fn), 0x1p-9);
}

}  // namespace
}  // namespace plumb::format_test
