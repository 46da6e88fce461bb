// Are sketches what they are derived to be, and the same however a tensor lies?
#include "trace/sketch.hpp"
#include "tests/support/rooms.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "number/outcome.hpp"
#include "trace/merge.hpp"

namespace plumb::sketch_test {
namespace {

constexpr std::size_t rows = 64, cols = 48;

Tensor drawn(unsigned seed, std::size_t n = rows, std::size_t m = cols) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Tensor t(n, m);
  for (float& x : t.values) x = normal(random);
  return t;
}

SketchOptions small_tiles(std::uint64_t seed = 1) { return {{8, 4}, 4, seed}; }

// One rank's shard of these blocks of a tensor, one below the other.
Shard of_blocks(const Tensor& x, const std::vector<Block>& blocks) {
  Shard shard{{x.rows, x.cols, {}}, {}, fp32};
  std::size_t n = 0;
  for (const Block& b : blocks) n += b.rows;
  shard.values = Tensor(n, blocks.front().cols);
  std::size_t first = 0;
  for (const Block& b : blocks) {
    shard.placement.pieces.push_back({b, {first, 0, b.rows, b.cols}});
    for (std::size_t i = 0; i < b.rows; ++i) {
      for (std::size_t j = 0; j < b.cols; ++j) shard.values(first + i, j) = x(b.row + i, b.col + j);
    }
    first += b.rows;
  }
  return shard;
}

Trace of(const std::vector<Shard>& shards) {
  Trace trace;
  trace.manifest.world_size = static_cast<int>(shards.size());
  for (const Shard& shard : shards) trace.ranks.emplace_back().shards["x"] = shard;
  return trace;
}
Trace whole_of(const Tensor& x) { return of({of_blocks(x, {{0, 0, x.rows, x.cols}})}); }

Tensor sketch_of(const Trace& trace, const SketchOptions& options = small_tiles()) {
  return *merge(sketched(trace, options)).values.at("x");
}

TEST(Sketch, IsTheSameToTheLastBitHoweverATensorLies) {
  const Tensor x = drawn(1), s = sketch_of(whole_of(x));
  EXPECT_EQ(s.rows, rows / 8);
  EXPECT_EQ(s.cols, cols / 4);
  const Trace by_columns = of({of_blocks(x, {{0, 0, 64, 12}}), of_blocks(x, {{0, 12, 64, 36}})});
  const Trace there_and_back =
      of({of_blocks(x, {{0, 0, 16, 48}, {48, 0, 16, 48}}), of_blocks(x, {{16, 0, 32, 48}})});
  const Trace twice = of({of_blocks(x, {{0, 0, 64, 48}}), of_blocks(x, {{0, 0, 64, 48}})});
  for (const Trace& trace : {by_columns, there_and_back, twice}) {
    EXPECT_EQ(sketch_of(trace).values, s.values);
    EXPECT_TRUE(merge(sketched(trace, small_tiles())).findings.empty());
  }
}

// An ulp of that is what a flip is free of (twins.md S2).
TEST(Sketch, IsSaidToBeOfTheTensorsFormat) {
  Trace trace = whole_of(drawn(1));
  trace.ranks[0].shards["x"].format = bf16;
  EXPECT_EQ(sketched(trace, small_tiles()).ranks[0].shards["x"].format.name, bf16.name);
}

TEST(Sketch, OfADifferenceIsTheDifferenceOfSketches) {
  const Tensor a = drawn(1), b = drawn(2);
  Tensor d = a;
  for (std::size_t i = 0; i < d.values.size(); ++i) d.values[i] -= b.values[i];
  const Tensor s = sketch_of(whole_of(a)), t = sketch_of(whole_of(b)), u = sketch_of(whole_of(d));
  double largest = 0;
  for (const float x : s.values) largest = std::max<double>(largest, std::abs(x));
  for (std::size_t i = 0; i < s.values.size(); ++i) {
    // The rounding of each of 32 differences, by weights of 225/64 at most, and of three sketches.
    EXPECT_NEAR(s.values[i] - t.values[i], u.values[i],
                0x1p-24 * (32 * 225 / 64.0 * 8 + 4 * largest));
  }
}

// Of parts of a sum the sketches add up to that of the sum.
TEST(Sketch, OfPartsOfASumMerges) {
  const Tensor a = drawn(1), b = drawn(2);
  Trace parts = of({of_blocks(a, {{0, 0, 64, 48}}), of_blocks(b, {{0, 0, 64, 48}})});
  for (int r = 0; r < 2; ++r) {
    Placement& p = parts.ranks[static_cast<std::size_t>(r)].shards["x"].placement;
    p.part = r;
    p.parts = 2;
  }
  const Tensor sum = sketch_of(parts), s = sketch_of(whole_of(a)), t = sketch_of(whole_of(b));
  for (std::size_t i = 0; i < sum.values.size(); ++i)
    EXPECT_EQ(sum.values[i], s.values[i] + t.values[i]);
}

// Of rows of which each part has its own: each tile is that of the whole, which FP32 has in more digits than
// the tensor's format.
TEST(Sketch, OfPartsInAShortFormatIsNotRounded) {
  const Tensor x = drawn(1);
  Tensor upper = x, lower = x;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) (i < rows / 2 ? lower : upper)(i, j) = 0;
  }
  Trace parts =
      of({of_blocks(upper, {{0, 0, rows, cols}}), of_blocks(lower, {{0, 0, rows, cols}})});
  for (int r = 0; r < 2; ++r) {
    Shard& shard = parts.ranks[static_cast<std::size_t>(r)].shards["x"];
    shard.format = bf16;
    shard.placement.part = r;
    shard.placement.parts = 2;
  }
  Trace one = whole_of(x);
  one.ranks[0].shards["x"].format = bf16;
  EXPECT_EQ(sketch_of(parts).values, sketch_of(one).values);
}

// An infinity would be equal to another, whatever is wrong beside it.
TEST(Sketch, OfATileWithAnInfinityIsNoNumber) {
  Tensor x = drawn(1);
  x(9, 5) = -INFINITY;
  x(0, 0) = x(0, 1) = 3e38F;  // and what leaves FP32
  const Tensor s = sketch_of(whole_of(x));
  for (std::size_t i = 0; i < s.rows; ++i) {
    for (std::size_t j = 0; j < s.cols; ++j)
      EXPECT_EQ(std::isnan(s(i, j)), (i == 1 && j == 1) || (i == 0 && j == 0)) << i << " " << j;
  }
}

// twins.md K1: the mean of s^2 over draws is (85/64)^2 of the tile's |x|^2.
TEST(Sketch, HasTheEnergyOfTheTensorInTheMeanOfDraws) {
  const Tensor x = drawn(3);
  double energy = 0;
  for (const float v : x.values) energy += static_cast<double>(v) * v;
  std::vector<double> ratios;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    double here = 0;
    for (const float v : sketch_of(whole_of(x), small_tiles(seed)).values)
      here += static_cast<double>(v) * v;
    ratios.push_back(here / energy * (64.0 / 85) * (64.0 / 85));
  }
  double mean = 0, squares = 0;
  for (const double r : ratios) mean += r / 400;
  for (const double r : ratios) squares += (r - mean) * (r - mean) / 399;
  EXPECT_NEAR(mean, 1, 5 * std::sqrt(squares / 400));
  EXPECT_LT(std::sqrt(squares), 0.3);  // of 96 tiles: sqrt(2/96) = 0.14 if they were normal
}

// Two columns of a tile have one weight in one of sixteen draws; then nothing shows that they are swapped.
TEST(Sketch, ShowsColumnsThatAreSwappedInFifteenOfSixteenDraws) {
  const Tensor x = drawn(4);
  Tensor y = x;
  for (std::size_t i = 0; i < rows; ++i) std::swap(y(i, 8), y(i, 9));
  int unseen = 0;
  for (std::uint64_t seed = 1; seed <= 800; ++seed) {
    const SketchOptions how = small_tiles(seed);
    unseen += sketch_of(whole_of(x), how).values == sketch_of(whole_of(y), how).values ? 1 : 0;
  }
  EXPECT_NEAR(unseen, 50, 5 * std::sqrt(800.0 / 16 * 15 / 16));
}

TEST(Sketch, KeepsVectorsSmallTensorsAndChoices) {
  const SketchOptions how = small_tiles();
  EXPECT_EQ(tile_of({4096, 4096}, {}), (Tile{16, 16}));
  EXPECT_EQ(tile_of({8, 256, 4096}, {}), (Tile{4, 16}));
  EXPECT_EQ(tile_of({8, 255, 192}, {}), (Tile{1, 1}));
  EXPECT_EQ(tile_of({4096}, {}), (Tile{1, 1}));
  EXPECT_EQ(tile_of({4096, 1}, how), (Tile{1, 1}));
  Trace trace = whole_of(drawn(1));
  trace.about["x"].role = Role::decision;
  EXPECT_EQ(sketch_of(trace).values, drawn(1).values);
}

// No operation makes tiles of tiles.
TEST(Sketch, KeepsHowATensorIsMadeThatIsKeptAndMadeOfSuchAlone) {
  const Tensor large = drawn(1), small = drawn(2, 1, 1);
  Trace trace = whole_of(large);
  for (const char* id : {"small", "of_small", "of_large"})
    trace.ranks[0].shards[id] = of_blocks(small, {{0, 0, 1, 1}});
  trace.ranks[0].shards["tiles"] = trace.ranks[0].shards["x"];
  trace.about["of_small"].made_by = {"cast", {"small", "not traced"}};
  trace.about["of_large"].made_by = {"add", {"small", "x"}};
  trace.about["tiles"].made_by = {"add", {"small"}};
  const Abouts kept = sketched(trace, small_tiles()).about;
  EXPECT_EQ(kept.at("of_small").made_by, trace.about.at("of_small").made_by);
  EXPECT_FALSE(kept.at("of_large").made_by);
  EXPECT_FALSE(kept.at("tiles").made_by);
}

std::string why_not(const Trace& trace) {
  try {
    sketched(trace, small_tiles());
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

TEST(Sketch, RefusesShardsThatEndWithinATileAndSaysWhichTilesFit) {
  const Tensor x = drawn(1);
  const std::string said =
      why_not(of({of_blocks(x, {{0, 0, 64, 6}}), of_blocks(x, {{0, 6, 64, 42}})}));
  EXPECT_NE(said.find("(--tile 8x2)"), said.npos) << said;
  SketchOptions fitting = small_tiles();
  fitting.most.columns = 2;
  EXPECT_NO_THROW(
      sketched(of({of_blocks(x, {{0, 0, 64, 6}}), of_blocks(x, {{0, 6, 64, 42}})}), fitting));
}

TEST(Sketch, RefusesWhatLacksAShardThatItShouldHold) {
  Trace trace = whole_of(drawn(1));
  trace.unfit.push_back({"x", "structure", 2, "lacks its replica on rank 3"});
  EXPECT_NE(why_not(trace).find("'x' lacks its replica on rank 3"), std::string::npos);
}

}  // namespace
}  // namespace plumb::sketch_test
