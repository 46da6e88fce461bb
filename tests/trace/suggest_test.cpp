// Is the placement found under which pieces fit, and is it told only where no other fits?
#include "trace/placements/suggest.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/rooms.hpp"
#include "trace/merge.hpp"
#include "trace/trace.hpp"

namespace plumb::suggest_test {
namespace {

using trace::Sharding;

const auto shard = Split::Kind::shard;
const Mesh mesh{{{"pp", 2}, {"dp", 2}, {"tp", 2}}};

Tensor random_tensor(std::size_t rows, std::size_t cols) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  Tensor x(rows, cols);
  for (float& v : x.values) v = normal(random);
  return x;
}

// What ranks hold of x, those of stage 1 unless it is said; summands are equal shares.
std::vector<Held> dealt(const Tensor& x, const Sharding& sharding, const Mesh& on = mesh,
                        std::size_t first = 4, std::size_t last = 8) {
  std::vector<Held> all;
  for (std::size_t rank = first; rank < last; ++rank) {
    const auto shape = shard_of(rank, {x.rows, x.cols}, sharding, on);
    const auto nd = held_by(rank, *shape, {x.rows, x.cols}, sharding, on);
    const auto flat = flattened(*nd);
    Tensor mine(shape->at(0), shape->at(1));
    for (const Piece& p : flat->pieces) {
      for (std::size_t i = 0; i < p.local.rows; ++i) {
        for (std::size_t j = 0; j < p.local.cols; ++j) {
          mine(p.local.row + i, p.local.col + j) =
              x(p.global.row + i, p.global.col + j) / static_cast<float>(flat->parts);
        }
      }
    }
    all.push_back({rank, *shape, std::move(mine)});
  }
  return all;
}

TEST(Suggest, FindsThePlacementThatFitsTheReference) {
  const Tensor x = random_tensor(8, 8);
  for (const Sharding& right :
       {Sharding{{1}, {2, shard, 0}}, Sharding{{1}, {2, shard, 1, 2}},
        Sharding{{1, shard, 0}, {2, shard, 1, 1, {}, {}, true}},
        Sharding{{1, shard, 0}, {2, shard, 0}}, Sharding{{2, shard, 0}, {1, shard, 0}},
        Sharding{{1, Split::Kind::partial}, {2, shard, 1}}}) {
    const std::vector<Held> held = dealt(x, right);
    const auto fits = fitting({8, 8}, held, mesh, &x);
    ASSERT_TRUE(fits);
    ASSERT_EQ(fits->size(), 1U);
    for (const Held& h : held) {  // the same blocks, in whichever words
      const auto found = held_by(h.rank, h.shape, {8, 8}, fits->front(), mesh);
      const auto meant = held_by(h.rank, h.shape, {8, 8}, right, mesh);
      EXPECT_EQ(*flattened(*found), *flattened(*meant));
    }
  }
}

// The second axis of the mesh may be the outer one.
TEST(Suggest, TriesAxesInEitherOrder) {
  const Tensor x = random_tensor(12, 2);
  const Mesh grid{{{"dp", 2}, {"tp", 3}}};
  const Sharding tp_first{{1, shard, 0}, {0, shard, 0}};
  const auto fits = fitting({12, 2}, dealt(x, tp_first, grid, 0, 6), grid, &x);
  ASSERT_EQ(fits->size(), 1U);
  EXPECT_EQ(fits->front(), tp_first);
}

TEST(Suggest, WithoutAReferenceTellsOnlyWhatShapesAndReplicasTell) {
  const Tensor x = random_tensor(8, 6);
  // Rows on tp, the same on dp: replicas tell dp from tp, and nothing tells plain from zigzag.
  const auto rows = fitting({8, 6}, dealt(x, {{1}, {2, shard, 0}}), mesh, nullptr);
  EXPECT_EQ(rows->size(), 3U);
  const auto all = fitting({8, 6}, dealt(x, {{1}, {2}}), mesh, nullptr);
  ASSERT_EQ(all->size(), 1U);
  EXPECT_EQ(all->front()[0].kind, Split::Kind::replicate);
}

TEST(Suggest, FindsNothingWhereNothingFits) {
  const Tensor x = random_tensor(8, 8);
  std::vector<Held> held = dealt(x, {{1}, {2, shard, 0}});
  held[1].values.values[3] += 1;  // replicas disagree, and the reference is another
  EXPECT_TRUE(fitting({8, 8}, held, mesh, &x)->empty());
  held.pop_back();
  EXPECT_TRUE(fitting({8, 8}, held, mesh, nullptr)->empty());  // a rank lacks its shard
  EXPECT_TRUE(fitting({8, 9}, dealt(x, {{1}, {2, shard, 0}}), mesh, nullptr)->empty());
}

TEST(Suggest, RefusesWhatWouldTakeForever) {
  Mesh large;
  std::vector<Held> held;
  for (int a = 0; a < 8; ++a) large.axes.push_back({std::to_string(a), 2});
  for (std::size_t rank = 0; rank < 256; ++rank) held.push_back({rank, {1}, Tensor(1, 1)});
  const auto fits = fitting({256}, held, large, nullptr);
  ASSERT_FALSE(fits);
  EXPECT_NE(fits.error().detail.find("100000 placements"), std::string::npos);
}

}  // namespace
}  // namespace plumb::suggest_test
