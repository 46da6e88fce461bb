// Does a profile say where in a tensor it is wrong?
#include "trace/profile.hpp"

#include <gtest/gtest.h>

#include "tests/support/rooms.hpp"
#include "trace/where.hpp"

namespace plumb::profile_test {
namespace {

TEST(Profile, HasTheLargestOfEachBand) {
  const auto size = [](std::size_t i, std::size_t j) {
    return i == 130 && j == 2 ? 7.0 : i == 0 ? 0.5 : 0.0;
  };
  const Profile p = profile_of(256, 3, true, size);
  ASSERT_EQ(p.along_rows.size(), 64U);  // four rows each
  ASSERT_EQ(p.along_columns.size(), 3U);
  for (std::size_t band = 0; band < 64; ++band) {
    EXPECT_EQ(p.along_rows[band], band == 0 ? 0.5 : band == 32 ? 7 : 0) << band;
  }
  EXPECT_EQ(p.along_columns, (std::vector<double>{0.5, 0.5, 7}));
}

TEST(Profile, OfTwoRunsIsTheDifferenceOverTheLargestNumber) {
  Tensor a(2, 2), b(2, 2);
  b.values = {-4, 1, 2, 0};
  a.values = {-4, 2, 2, 0};
  EXPECT_EQ(where_they_differ(a, b).along_rows, (std::vector<double>{0.25, 0}));
  EXPECT_EQ(where_they_differ(a, b).along_columns, (std::vector<double>{0, 0.25}));
  EXPECT_TRUE(std::isinf(where_they_differ(a, Tensor(2, 2)).along_rows[0]));
}

TEST(Profile, OfTwoRunsIsThatOfTheirElements) {
  for (const std::size_t cols : {1U, 3U, 63U, 64U, 65U, 200U, 1000U}) {
    Tensor a(70, cols), b(70, cols);
    for (std::size_t e = 0; e < a.size(); ++e) {
      b.values[e] = static_cast<float>(e % 17);
      a.values[e] = b.values[e] + static_cast<float>(e * 7919 % 31 < 3 ? e * 31 % 101 : 0);
    }
    a.values[a.size() / 2] = std::nanf("");
    const Profile plain = profile_of(70, cols, false, [&](std::size_t i, std::size_t j) {
      const double off = std::fabs(static_cast<double>(a(i, j)) - b(i, j));
      return off == 0 ? 0 : off / 16;
    });
    const Profile p = where_they_differ(a, b);
    EXPECT_EQ(p.along_rows, plain.along_rows) << cols;
    EXPECT_EQ(p.along_columns, plain.along_columns) << cols;
  }
}

TEST(Profile, OfWhatIsNoNumberIsInfinite) {
  const Profile p =
      profile_of(2, 2, false, [](std::size_t i, std::size_t) { return i == 1 ? std::nan("") : 0; });
  EXPECT_EQ(p.along_rows[0], 0);
  EXPECT_TRUE(std::isinf(p.along_rows[1]));
}

}  // namespace
}  // namespace plumb::profile_test
