// The same sum with other roundings: what a twin moves and what noise around the exact run does.
#include "bounds/roundings.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "bounds/examples/draw.hpp"
#include "number/philox.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::roundings_test {
namespace {

std::vector<Matrix<float>> parts_of(int n) {
  Draw draw("plain", 3);
  std::vector<Matrix<float>> parts;
  for (int p = 0; p < n; ++p) parts.push_back(converted<float>(draw.matrix(40, 50)));
  return parts;
}

double total(const std::vector<Matrix<float>>& parts, std::size_t e) {
  double sum = 0;
  for (const auto& part : parts) sum += static_cast<double>(part.values[e]);
  return sum;
}

TEST(TwinRoundings, MoveAboutAnUlpBetweenNeighboursAndKeepTheSum) {
  for (const int n : {2, 3, 5}) {
    const auto before = parts_of(n);
    auto after = before;
    TwinRoundings(7).before_parts(after, bf16);
    double moved = 0;
    for (std::size_t e = 0; e < before[0].size(); ++e) {
      double largest = 0;
      for (const auto& part : before) {
        largest = std::max(largest, std::fabs(static_cast<double>(part.values[e])));
      }
      const double step = ulp(2 * largest, bf16);
      for (std::size_t p = 0; p < before.size(); ++p) {
        const double by =
            static_cast<double>(after[p].values[e]) - static_cast<double>(before[p].values[e]);
        EXPECT_LE(std::fabs(by), 4.0 * step);
        moved += std::fabs(by) / step;
      }
      EXPECT_NEAR(total(after, e), total(before, e), 0x1p-20 * n * largest);
    }
    EXPECT_GT(moved / static_cast<double>(before[0].size()), 0.2 * n);
  }
}

// Also where the last lanes are not full.
TEST(TwinRoundings, MoveEachElementOfAVectorByItsOwnAmount) {
  std::vector<Matrix<float>> parts(2, Matrix<float>(297, 1, 1 + 0x1p-10F));
  TwinRoundings(7).before_parts(parts, bf16);
  std::set<float> amounts;
  double sum = 0;
  for (const float x : parts[0].values) {
    const float by = x - (1 + 0x1p-10F);
    EXPECT_NE(by, 0);
    amounts.insert(by);
    sum += static_cast<double>(by) / 0x1p-7;
  }
  // 297 of 65,536 amounts: one pair alike is expected in 0.67, six in 5e-6 of all keys.
  EXPECT_GT(amounts.size(), parts[0].size() - 6);
  // Uniform in (-2, 2) ulps: variance 4/3; five standard deviations of the mean.
  EXPECT_NEAR(sum / 297, 0, 5 * std::sqrt(4.0 / 3 / 297));
}

// Widths below, at, and not a multiple of the lanes.
TEST(TwinRoundings, RowsThatAreAlikeRoundAlike) {
  for (const std::size_t width : {3, 16, 99, 130}) {
    std::vector<Matrix<float>> parts(3, Matrix<float>(7, width, 1 + 0x1p-10F));
    TwinRoundings(7).before_parts(parts, bf16);
    std::set<float> amounts;
    for (std::size_t j = 0; j < width; ++j) {
      amounts.insert(parts[0](0, j));
      for (std::size_t i = 1; i < 7; ++i)
        EXPECT_EQ(parts[0](i, j), parts[0](0, j)) << i << " " << j;
    }
    EXPECT_GT(amounts.size() + 3, width);  // three pairs alike in 130: 5e-4 of all keys
  }
}

// By how much the first part of each row went up, in the only column.
std::vector<float> moved(const std::function<float(std::size_t)>& part) {
  std::vector<Matrix<float>> parts(2, Matrix<float>(64, 2, 0x1p-12F));
  for (std::size_t i = 0; i < 64; ++i) parts[0](i, 0) = part(i);
  TwinRoundings(7).before_parts(parts, bf16);
  std::vector<float> by;
  for (std::size_t i = 0; i < 64; ++i) by.push_back(parts[0](i, 0) - part(i));
  return by;
}

TEST(TwinRoundings, RowsThatDifferAreMovedApart) {
  const auto far = moved([](std::size_t i) { return 1 + static_cast<float>(i) * 0x1p-7F; });
  EXPECT_GT(std::set<float>(far.begin(), far.end()).size(), 60U);
  // Hundredths of an ulp apart, and all round to 1.5.
  const auto near = moved([](std::size_t i) { return 1.498F + static_cast<float>(i) * 0x1p-14F; });
  for (const float by : near) EXPECT_NEAR(by, near[0], 0x1p-22F);
}

// Numbers below the normal ones, an ulp apart.
TEST(TwinRoundings, SubnormalRowsThatDifferAreMovedApart) {
  std::vector<Matrix<float>> parts(2, Matrix<float>(64, 2, 0x1p-130F + 0x1p-140F));
  for (std::size_t i = 0; i < 64; ++i) parts[0](i, 0) += static_cast<float>(i) * 0x1p-133F;
  const auto before = parts;
  TwinRoundings(7).before_parts(parts, bf16);
  std::set<float> by;
  for (std::size_t i = 0; i < 64; ++i) by.insert(parts[0](i, 0) - before[0](i, 0));
  EXPECT_GT(by.size(), 60U);
}

// The sum of both parts, each rounded to bf16, less the exact one: its mean, and in how many of them
// it is not what one device rounds to.
struct Lost {
  double mean = 0, other = 0;
};
Lost lost(const std::vector<Matrix<float>>& parts, const std::vector<Matrix<float>>& exact) {
  Lost seen;
  const auto n = static_cast<double>(exact[0].size());
  const auto in_bf16 = [](double x) { return round_to(x, bf16); };
  for (std::size_t e = 0; e < exact[0].size(); ++e) {
    const double x = static_cast<double>(parts[0].values[e]),
                 y = static_cast<double>(parts[1].values[e]),
                 sum = in_bf16(in_bf16(x) + in_bf16(y));
    seen.mean += (sum - total(exact, e)) / n;
    seen.other += sum != in_bf16(total(exact, e)) ? 1 / n : 0;
  }
  return seen;
}

// An eighth of an ulp beside numbers of one binade: a run loses it in every element, one way.
TEST(TwinRoundings, LoseAPartThatARunLosesToo) {
  constexpr double small = 0x1p-10;
  std::vector<Matrix<float>> parts(2, Matrix<float>(80, 50, static_cast<float>(small)));
  for (std::size_t e = 0; e < parts[0].size(); ++e) {
    parts[0].values[e] = static_cast<float>(1 + uniform(5, e));
  }
  auto twin = parts;
  TwinRoundings(7).before_parts(twin, bf16);
  EXPECT_NE(twin, parts);
  const Lost of_run = lost(parts, parts), of_twin = lost(twin, parts);
  // Roundings vary by an ulp over the root of 12; five deviations of the mean of 4,000.
  const double five = 5 * 0x1p-7 / std::sqrt(12.0 * 4000);
  EXPECT_NEAR(of_run.mean, -small, five);
  EXPECT_NEAR(of_twin.mean, -small, five);
  // An eighth of all, with five deviations of a count.
  EXPECT_NEAR(of_run.other, 0.125, 5 * std::sqrt(0.125 * 0.875 / 4000));
  EXPECT_NEAR(of_twin.other, 0.125, 5 * std::sqrt(0.125 * 0.875 / 4000));
}

TEST(TwinRoundings, DependOnTheKeyAlone) {
  auto one = parts_of(3);
  auto same = one;
  auto other = one;
  TwinRoundings(1).before_parts(one, bf16);
  TwinRoundings(1).before_parts(same, bf16);
  TwinRoundings(2).before_parts(other, bf16);
  EXPECT_EQ(one, same);
  EXPECT_NE(one, other);
}

TEST(TwinRoundings, LeaveElementsAloneThatNoRoundingTouches) {
  // 1 + 2^-7 and 2: numbers of BF16 whose sum is one of FP32 but not of BF16.
  const std::vector<Matrix<float>> parts{Matrix<float>(1, 1, 1 + 0x1p-7F), Matrix<float>(1, 1, 2)};
  std::vector<Matrix<float>> in_fp32 = parts, in_bf16 = parts;
  TwinRoundings(1).before_parts(in_fp32, fp32);
  TwinRoundings(1).before_parts(in_bf16, bf16);
  EXPECT_EQ(in_fp32, parts);
  EXPECT_NE(in_bf16, parts);
  // Beside one that no rounding touches.
  std::vector<Matrix<float>> mixed(2, Matrix<float>(1, 16, 1 + 0x1p-10F));
  mixed[0].values[0] = mixed[1].values[0] = 2;
  TwinRoundings(1).before_parts(mixed, bf16);
  EXPECT_EQ(mixed[0].values[0], 2);
  for (std::size_t e = 1; e < 16; ++e) EXPECT_NE(mixed[0].values[e], 1 + 0x1p-10F);
  // 2^60 + 1 loses the 1 even in FP64: that is a rounding.
  std::vector<Matrix<float>> wide{Matrix<float>(1, 1, 0x1p60F), Matrix<float>(1, 1, 1)};
  const std::vector<Matrix<float>> before = wide;
  TwinRoundings(1).before_parts(wide, fp32);
  EXPECT_NE(wide, before);
}

// In one order for all elements or in one for each slice; what is added up stays the same.
TEST(TwinRoundings, DrawAnOrderWhereNobodyKnowsOne) {
  std::vector<Matrix<float>> parts;
  for (int p = 0; p < 4; ++p) parts.emplace_back(8, 5, static_cast<float>(p));
  int as_one = 0, in_slices = 0;
  std::set<float> first;  // the part that an element begins with
  for (std::uint64_t key = 1; key <= 64; ++key) {
    auto drawn = parts;
    TwinRoundings(key, {.amounts = false, .orders = true}).before_parts(drawn, fp32);
    std::set<std::vector<float>> orders;
    for (std::size_t e = 0; e < drawn[0].size(); ++e) {
      std::vector<float> order;
      for (const auto& part : drawn) order.push_back(part.values[e]);
      orders.insert(order);
      first.insert(order.front());
      std::ranges::sort(order);
      EXPECT_EQ(order, (std::vector<float>{0, 1, 2, 3}));
    }
    ++(orders.size() == 1 ? as_one : in_slices);
    EXPECT_LE(orders.size(), 4U);
  }
  EXPECT_GT(as_one, 16);
  EXPECT_GT(in_slices, 16);
  EXPECT_EQ(first.size(), 4U);
  auto two = std::vector<Matrix<float>>(parts.begin(), parts.begin() + 2);
  TwinRoundings(1, {.amounts = false, .orders = true}).before_parts(two, fp32);
  EXPECT_EQ(two[0], parts[0]);
}

TEST(TwinRoundings, LeaveOnePartAndZerosAlone) {
  auto alone = parts_of(1);
  const auto before = alone;
  TwinRoundings(1).before_parts(alone, bf16);
  EXPECT_EQ(alone, before);
  std::vector<Matrix<float>> zeros(2, Matrix<float>(3, 3));
  TwinRoundings(1).before_parts(zeros, bf16);
  EXPECT_EQ(zeros[0], Matrix<float>(3, 3));
}

TEST(SignedRoundings, AddTheRecordedErrorsOfTheSameCallsWithOneSignEach) {
  const Matrix<float> x = parts_of(1)[0];
  std::vector<Tensor> errors;
  RecordedRoundings recorded(errors);
  Matrix<float> to_bf16 = x, to_fp8 = x, expected = x;
  recorded.round(to_bf16, bf16);
  recorded.round(to_fp8, e4m3fn);
  RealRoundings().round(expected, bf16);
  EXPECT_EQ(to_bf16, expected);
  int positive = 0;
  const int draws = effort(200);
  for (int k = 0; k < draws; ++k) {
    SignedRoundings roundings(errors, static_cast<std::uint64_t>(k));
    for (const Matrix<float>& rounded : {to_bf16, to_fp8}) {
      Matrix<double> y = converted<double>(x);
      roundings.round(y, bf16);
      double along = 0, energy = 0;
      for (std::size_t e = 0; e < x.size(); ++e) {
        const double real = static_cast<double>(rounded.values[e]) - x.values[e];
        along += (y.values[e] - x.values[e]) * real;
        energy += real * real;
      }
      EXPECT_NEAR(std::fabs(along), energy, 1e-6 * energy);
      positive += along > 0 ? 1 : 0;
    }
  }
  EXPECT_NEAR(positive, draws, 5 * std::sqrt(draws / 2.0));  // fair coins, 2 a draw
}

TEST(SignedRoundings, LeaveZerosAlone) {
  const std::vector<Tensor> errors{Matrix<float>(1, 2, 28.0F)};
  Matrix<double> x(1, 2);
  x.values = {0, 3};
  SignedRoundings(errors, 1).round(x, e4m3fn);
  EXPECT_EQ(x.values[0], 0);
  EXPECT_EQ(std::fabs(x.values[1] - 3), 28);
}

TEST(ExactRoundings, ChangeNothing) {
  Matrix<double> x(1, 1, 0.1);
  ExactRoundings().round(x, e4m3fn);
  EXPECT_EQ(x.values[0], 0.1);
}

}  // namespace
}  // namespace plumb::roundings_test
