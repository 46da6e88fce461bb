// Are the seven numbers of the quick pass those of a plain loop in FP64, also where FP32 sums would
// lose everything?
#include "trace/difference.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "number/encoding.hpp"
#include "number/rounding.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/tensors.hpp"
#include "trace/joint.hpp"

namespace plumb::difference_test {
namespace {

// Counts in steps of nextafter, one by one: slow and beyond doubt.
std::uint32_t steps_between(float a, float b) {
  std::uint32_t n = 0;
  for (; a < b; ++n) a = std::nextafter(a, b);
  for (; a > b; ++n) a = std::nextafter(a, b);
  return n;
}

Difference plainly(const std::vector<float>& a, const std::vector<float>& b) {
  Difference sum;
  const Closeness close;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      ++sum.non_finite;
      continue;
    }
    const double d = static_cast<double>(a[i]) - b[i];
    sum.squares += d * d;
    sum.energy += static_cast<double>(b[i]) * b[i];
    sum.own += static_cast<double>(a[i]) * a[i];
    sum.largest = std::max(sum.largest, std::fabs(a[i] - b[i]));
    sum.over += std::fabs(a[i] - b[i]) > close.absolute + close.relative * std::fabs(b[i]) ? 1 : 0;
  }
  return sum;
}

void expect_equal(const std::vector<float>& a, const std::vector<float>& b) {
  const Difference quick = difference(a, b), plain = plainly(a, b);
  EXPECT_NEAR(quick.squares, plain.squares, 1.2e-6 * plain.squares);
  EXPECT_NEAR(quick.energy, plain.energy, 1.2e-6 * plain.energy);
  EXPECT_NEAR(quick.own, plain.own, 1.2e-6 * plain.own);
  EXPECT_EQ(quick.largest, plain.largest);
  EXPECT_EQ(quick.over, plain.over);
  EXPECT_EQ(quick.non_finite, plain.non_finite);
}

TEST(Difference, EqualsThePlainLoopAtEveryLengthAndSize) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int draw = 0; draw < effort(200); ++draw) {
    const std::size_t n = random() % 2000;
    // Squares of the first fall below FP32, of the last beyond it.
    const float size = std::ldexp(1.0F, static_cast<int>(random() % 240) - 120);
    std::vector<float> a(n), b(n);
    for (std::size_t i = 0; i < n; ++i) {
      b[i] = size * normal(random);
      const bool equal_here = i / 512 % 2 == 1 || random() % 3 == 0;
      a[i] = equal_here ? b[i] : b[i] * (1 + 0.02F * normal(random));
    }
    expect_equal(a, b);
  }
}

// Its square lies below FP32, and the sums beside it do not.
TEST(Difference, OfATinyNumberAmongLargeOnesIsNoEquality) {
  std::vector<float> a(1024, 1.0F), b = a;
  a[700] = 1e-24F;
  b[700] = 3e-24F;
  expect_equal(a, b);
  EXPECT_GT(difference(a, b).squares, 0);
}

TEST(Difference, LeavesOutWhatIsNotFiniteAndCountsIt) {
  std::vector<float> a(600, 1.0F), b(600, 1.5F);
  a[3] = std::numeric_limits<float>::quiet_NaN();
  b[300] = std::numeric_limits<float>::infinity();
  a[599] = -std::numeric_limits<float>::infinity();
  expect_equal(a, b);
  const Difference d = difference(a, b);
  EXPECT_EQ(d.non_finite, 3U);
  EXPECT_EQ(d.largest, 0.5F);
  EXPECT_TRUE(std::isinf(d.relative()));
}

TEST(Difference, CountsUlpsAcrossZero) {
  std::vector<float> a(300), b(300);
  a[7] = 100 * std::numeric_limits<float>::denorm_min();
  b[7] = -20 * std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(difference(a, b).ulps, steps_between(a[7], b[7]));
  a[290] = 1.0F;
  b[290] = 1.0F + 500 * 0x1p-23F;
  EXPECT_EQ(difference(a, b).ulps, steps_between(a[290], b[290]));
  a[5] = std::numeric_limits<float>::max();
  b[5] = std::numeric_limits<float>::lowest();
  EXPECT_EQ(difference(a, b).ulps, 2 * std::bit_cast<std::uint32_t>(a[5]));
}

TEST(Difference, RelativeKnowsZeros) {
  const std::vector<float> zeros(5), ones(5, 1.0F);
  EXPECT_EQ(difference(zeros, zeros).relative(), 0);
  EXPECT_EQ(difference(ones, ones).relative(), 0);
  EXPECT_EQ(difference(zeros, ones).relative(), 1);
  EXPECT_TRUE(std::isinf(difference(ones, zeros).relative()));
}

// Numbers in some format, in pieces that lie anywhere.
class InPieces {
 public:
  InPieces(const std::vector<float>& x, Stored stored, std::mt19937& random) {
    for (std::size_t first = 0; first < x.size();) {
      const std::size_t n = std::min<std::size_t>(random() % 1500 + 1, x.size() - first);
      std::string bytes(random() % 3, 'x');  // where nothing is aligned
      const std::size_t place = bytes.size();
      for (std::size_t i = first; i < first + n; ++i) {
        if (stored == Stored::f32) bytes += bytes_of<float>({x[i]});
        const Format& format = format_of(stored);
        if (stored != Stored::f32)
          bytes += bytes_of<std::uint16_t>({static_cast<std::uint16_t>(encode(x[i], format))});
      }
      places_.push_back(place);
      pieces_.push_back(std::move(bytes));
      sizes_.push_back(n);
      first += n;
    }
    for (std::size_t p = 0; p < pieces_.size(); ++p)
      runs_.push_back({pieces_[p].data() + places_[p], stored, sizes_[p]});
  }
  InPieces(const InPieces&) = delete;
  InPieces& operator=(const InPieces&) = delete;
  const std::vector<Lying>& runs() const { return runs_; }

 private:
  std::vector<std::string> pieces_;
  std::vector<std::size_t> places_, sizes_;
  std::vector<Lying> runs_;
};

TEST(Difference, OfNumbersWhereTheyLieHasTheSameBits) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::size_t odd = 0;
  for (int draw = 0; draw < effort(200); ++draw) {
    const Stored all[] = {Stored::f32, Stored::bf16, Stored::f16};
    const Stored of_a = all[random() % 3], of_b = all[random() % 3];
    const std::size_t n = random() % 9000;
    const float size = std::ldexp(1.0F, static_cast<int>(random() % 60) - 40);
    std::vector<float> a(n), b(n);
    for (std::size_t i = 0; i < n; ++i) {
      b[i] = i / 700 % 4 == 1 ? 0 : size * normal(random);
      a[i] = random() % 2 == 0 || i / 700 % 4 == 2 ? b[i] : b[i] * (1 + 0.02F * normal(random));
      a[i] = round_to(a[i], format_of(of_a));
      b[i] = round_to(b[i], format_of(of_b));
    }
    if (n > 0 && draw % 5 == 0) a[random() % n] = std::numeric_limits<float>::quiet_NaN();
    if (n > 0 && draw % 7 == 0) b[random() % n] = std::numeric_limits<float>::infinity();
    const InPieces x(a, of_a, random), y(b, of_b, random);
    Difference lying;
    add_difference(x.runs(), y.runs(), lying);
    const Difference d = difference(a, b);
    ASSERT_EQ(lying.squares, d.squares) << draw;
    ASSERT_EQ(lying.energy, d.energy) << draw;
    ASSERT_EQ(lying.own, d.own) << draw;
    ASSERT_EQ(lying.largest, d.largest) << draw;
    ASSERT_EQ(lying.non_finite, d.non_finite) << draw;
    odd += d.non_finite;
  }
  EXPECT_GT(odd, 20U);  // that the draw is not trivial
}

// Shards by columns, of each rank as many.
std::vector<Shard> by_columns(const Tensor& x, std::size_t ranks) {
  std::vector<Shard> shards;
  const std::size_t width = x.cols / ranks;
  for (std::size_t r = 0; r < ranks; ++r) {
    Shard shard{{x.rows, x.cols, {}}, Tensor(x.rows, width), fp32};
    for (std::size_t i = 0; i < x.rows; ++i) {
      for (std::size_t j = 0; j < width; ++j) shard.values(i, j) = x(i, r * width + j);
    }
    shard.placement.pieces = {{{0, r * width, x.rows, width}, {0, 0, x.rows, width}}};
    shards.push_back(std::move(shard));
  }
  return shards;
}

Whole joined(const Tensor& x, const std::vector<Shard>& shards) {
  std::vector<OfRank> of_ranks;
  for (std::size_t r = 0; r < shards.size(); ++r) of_ranks.push_back({r, &shards[r]});
  return {x.rows, x.cols, std::make_shared<trace::Joint>("x", std::move(of_ranks), shards.size())};
}

TEST(Difference, OfShardsByColumnsHasTheSameBits) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  const int draws = effort(40);
  std::size_t as_streams = 0;
  for (int draw = 0; draw < draws; ++draw) {
    const std::size_t ranks = 1 + random() % 4,
                      width = random() % 4 == 0 ? 200 : 256 * (1 + random() % 3);
    Tensor a(1 + random() % 200, ranks * width), b(a.rows, a.cols);
    for (std::size_t e = 0; e < a.size(); ++e) {
      b.values[e] = e / 3000 % 5 == 1 ? 0 : normal(random);
      a.values[e] =
          e / 3000 % 5 == 3 ? 1e-18F * b.values[e] : b.values[e] * (1 + 0.02F * normal(random));
    }
    if (draw % 3 == 0) a.values[random() % a.size()] = std::numeric_limits<float>::infinity();
    const std::vector<Shard> of_a = by_columns(a, ranks),
                             of_b = by_columns(b, draw % 7 == 0 ? 1 : ranks);
    const Whole x = joined(a, of_a), y = joined(b, of_b);
    if (width % 256 == 0) as_streams += x.elements->by_columns(0, 1).size() / 2;
    const Difference columns = difference(x, y), whole = difference(Whole(a), Whole(b));
    ASSERT_EQ(columns.squares, whole.squares) << draw;
    ASSERT_EQ(columns.energy, whole.energy) << draw;
    ASSERT_EQ(columns.own, whole.own) << draw;
    ASSERT_EQ(columns.largest, whole.largest) << draw;
    ASSERT_EQ(columns.non_finite, whole.non_finite) << draw;
  }
  EXPECT_GE(4 * as_streams, static_cast<std::size_t>(draws));  // that they are not trivial
}

TEST(Difference, KnowsWhereAFileHasItsColumnsInOnePiece) {
  const Tensor x(6, 8);
  std::vector<Shard> shards = by_columns(x, 2);
  const std::vector<Columns> lie = joined(x, shards).elements->by_columns(2, 3);
  ASSERT_EQ(lie.size(), 2U);
  EXPECT_EQ(lie[1].bytes, reinterpret_cast<const char*>(&shards[1].values(2, 0)));
  EXPECT_EQ(lie[1].column, 4U);
  EXPECT_EQ(lie[1].width, 4U);
  // There and back: each has two pieces of a row.
  shards[0].placement.pieces = {{{0, 0, 6, 2}, {0, 0, 6, 2}}, {{0, 6, 6, 2}, {0, 2, 6, 2}}};
  shards[1].placement.pieces = {{{0, 2, 6, 4}, {0, 0, 6, 4}}};
  EXPECT_TRUE(joined(x, shards).elements->by_columns(2, 3).empty());
  // Some rows of one, and some of the other.
  shards[0].placement.pieces = {{{0, 0, 3, 8}, {0, 0, 3, 8}}};
  shards[1].placement.pieces = {{{3, 0, 3, 8}, {0, 0, 3, 8}}};
  shards[0].values = shards[1].values = Tensor(3, 8);
  EXPECT_EQ(joined(x, shards).elements->by_columns(3, 3).size(), 1U);
  EXPECT_TRUE(joined(x, shards).elements->by_columns(2, 3).empty());
}

TEST(Difference, KnowsTheAngle) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  for (const float off : {1e-4F, 1e-2F, 1.0F, 100.0F}) {
    std::vector<float> a(3000), b(3000);
    long double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      b[i] = normal(random);
      a[i] = b[i] + off * normal(random);
      ab += static_cast<long double>(a[i]) * b[i];
      aa += static_cast<long double>(a[i]) * a[i];
      bb += static_cast<long double>(b[i]) * b[i];
    }
    const auto truth = static_cast<double>(ab / std::sqrt(aa * bb));
    // Each sum is off by 1.2e-6, and 1 - cosine of sums that cancel by as much of the largest.
    const double longest = std::max(static_cast<double>(aa / bb), static_cast<double>(bb / aa));
    EXPECT_NEAR(difference(a, b).cosine(), truth, 4e-6 * std::sqrt(longest) * off) << off;
  }
  const std::vector<float> one(300, 1.0F), zero(300, 0.0F);
  EXPECT_EQ(difference(one, one).cosine(), 1);
  EXPECT_EQ(difference(zero, zero).cosine(), 1);
  EXPECT_TRUE(std::isnan(difference(one, zero).cosine()));
}

}  // namespace
}  // namespace plumb::difference_test
