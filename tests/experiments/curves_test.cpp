// When does a person see a curve leave the band of healthy ones?
#include "experiments/curves.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/rooms.hpp"

namespace plumb::curves_test {
namespace {

// Widths 0, 1, 1, 1; 101 high, so that a pixel is 0.202.
const Band band = band_of({{101, 5, 4, 0}, {101, 4, 5, 1}});

TEST(Curves, BandAndPixelAreThoseOfHealthyRuns) {
  EXPECT_EQ(band.low, CurveOf({101, 4, 4, 0}));
  EXPECT_EQ(band.high, CurveOf({101, 5, 5, 1}));
  EXPECT_DOUBLE_EQ(band.pixel, 101 / 500.0);
  EXPECT_EQ(outside(band, 1, 4.5), 0);
  EXPECT_EQ(outside(band, 1, 3), 1);
  EXPECT_EQ(outside(band, 1, 7), 2);
  EXPECT_EQ(outside(band, 1, NAN), INFINITY);
}

TEST(Curves, AreSeenFromWhereTheyStayOutside) {
  EXPECT_EQ(seen_from({101, 8, 8, 4}, band, 1), 1U);
  EXPECT_EQ(seen_from({101, 8, 5, 4}, band, 1), 3U);  // it came back
  EXPECT_EQ(seen_from({102, 8, 8, 4}, band, 1), 0U);
  EXPECT_EQ(seen_from({101.2, 8, 8, 4}, band, 1), 1U);  // less than a pixel
  EXPECT_EQ(seen_from({101, 8, 8, 1}, band, 1), std::nullopt);
  EXPECT_EQ(seen_from({101, 1, 1, NAN}, band, 1), 1U);  // below, and then no number
}

TEST(Curves, WiderBandsHideMore) {
  EXPECT_EQ(seen_from({101, 6.5, 8, 4}, band, 1), 1U);
  EXPECT_EQ(seen_from({101, 6.5, 8, 4}, band, 2), 2U);
  EXPECT_EQ(seen_from({101, 6.5, 8, 4}, band, 3), std::nullopt);
}

}  // namespace
}  // namespace plumb::curves_test
