// Do placements by hand lie where they should, and what is said of those that cannot be?
#include "trace/placements/sharding.hpp"

#include <gtest/gtest.h>

#include "tests/support/rooms.hpp"
#include "trace/placements/dims.hpp"

namespace plumb::placements_test {
namespace {

using trace::Sharding;

TEST(Placements, OfDTensorCutAsItDoes) {  // 10 rows on 4 ranks: 3, 3, 3, 1; on 8: 2 each of five
  const Mesh mesh{{{"tp", 4}}};
  const Sharding rows{{0, Split::Kind::shard, 0}};
  EXPECT_EQ(*shard_of(3, {10, 2}, rows, mesh), (Extents{1, 2}));
  EXPECT_EQ(*shard_of(7, {10, 2}, rows, {{{"tp", 8}}}), (Extents{0, 2}));
  // FSDP on top of TP: [_StridedShard(0, split_factor=2), Shard(0)] on (dp 2, tp 2), 8 rows; PyTorch's
  // documentation has rank 1 at rows 4-5 and rank 2 at rows 2-3.
  const Sharding strided{{0, Split::Kind::shard, 0, 2}, {1, Split::Kind::shard, 0}};
  const Mesh both{{{"dp", 2}, {"tp", 2}}};
  for (const auto& [rank, first] :
       {std::pair<std::size_t, std::size_t>{0, 0}, {1, 4}, {2, 2}, {3, 6}}) {
    const auto held = held_by(rank, {2}, {8}, strided, both);
    ASSERT_TRUE(held);
    ASSERT_EQ(held->blocks.size(), 1U);
    EXPECT_EQ(held->blocks[0].global, Extents{first}) << rank;
  }
}

TEST(Placements, OfAFusedProductAreInterleaved) {  // query 8, key 4, value 4 on two ranks
  const Mesh mesh{{{"tp", 2}}};
  const Sharding qkv{{0, Split::Kind::shard, 1, 1, {8, 4, 4}}};
  const auto held = held_by(1, {3, 8}, {3, 16}, qkv, mesh);
  ASSERT_TRUE(held);
  const auto flat = flattened(*held);
  ASSERT_TRUE(flat);
  ASSERT_EQ(flat->pieces.size(), 3U);
  EXPECT_EQ(flat->pieces[0], (Piece{{0, 4, 3, 4}, {0, 0, 3, 4}}));
  EXPECT_EQ(flat->pieces[1], (Piece{{0, 10, 3, 2}, {0, 4, 3, 2}}));
  EXPECT_EQ(flat->pieces[2], (Piece{{0, 14, 3, 2}, {0, 6, 3, 2}}));
}

TEST(Placements, ThatCannotBeAreRefusedInWords) {
  const Mesh mesh{{{"dp", 2}, {"tp", 4}}};
  const auto says = [&](const Sharding& sharding, const std::string& what) {
    const auto shape = shard_of(0, {8, 6}, sharding, mesh);
    ASSERT_FALSE(shape) << what;
    EXPECT_NE(shape.error().detail.find(what), std::string::npos) << shape.error().detail;
  };
  const auto shard = Split::Kind::shard;
  says({{2, shard, 0}}, "an axis that the mesh does not have");
  says({{0, shard, 0}, {0, shard, 1}}, "the axis 'dp' twice");
  says({{0, shard, 2}}, "a shard of dimension 2 on 'dp', of a tensor of 2");
  says({{1, shard, 1, 1, {}, {}, true}}, "a zigzag of 8 chunks, of a dimension of 6");
  says({{1, shard, 1, 1, {2, 3}}}, "groups of sizes that add up to 5, of a dimension of 6");
  says({{1, shard, 1, 1, {}, {2, 2, 2}}}, "3 sizes that add up to 6");
  says({{1, shard, 1, 2, {3, 3}}}, "more than one of stride, groups");
  says({{1, shard, 1, 5000}}, "no such stride");
  says({{1, shard, 1, 1, {}, {}, false, 5}}, "a dimension of 6 that is padded to 5");
  constexpr std::size_t half = std::size_t(1) << 63;
  says({{1, shard, 1, 1, {half, half, 6}}}, "groups of sizes");
}

TEST(Placements, SayWhoHoldsATensor) {
  const Mesh mesh{{{"pp", 2}, {"dp", 2}, {"tp", 2}}};
  const Sharding on_both{{1}, {2, Split::Kind::shard, 0}};
  EXPECT_EQ(owed_to({5}, on_both, mesh, 8), (std::vector<std::size_t>{4, 5, 6, 7}));
  EXPECT_EQ(owed_to({0}, {{2, Split::Kind::shard, 0}}, mesh, 8), (std::vector<std::size_t>{0, 1}));
}

// FP32 sums depend on the order of their terms.
TEST(Placements, OfASumNumberItsPartsAsRanksAreNumbered) {
  const Mesh mesh{{{"dp", 2}, {"tp", 3}}};
  const Sharding sum{{0, Split::Kind::partial}, {1, Split::Kind::partial}};
  for (std::size_t rank = 0; rank < 6; ++rank) {
    const auto held = held_by(rank, {4}, {4}, sum, mesh);
    ASSERT_TRUE(held);
    EXPECT_EQ(held->part, static_cast<int>(rank));
    EXPECT_EQ(held->parts, 6);
  }
}

TEST(Placements, AsATextOfDimensions) {
  const Mesh mesh{{{"dp", 2}, {"cp", 2}, {"tp", 2}}};
  const auto read = sharding_from_dims("b s[cp:zigzag,tp] 1 # dp:replicated", 3, mesh);
  ASSERT_TRUE(read) << read.error().detail;
  const Sharding expected{{1, Split::Kind::shard, 1, 1, {}, {}, true},
                          {2, Split::Kind::shard, 1},
                          {0, Split::Kind::replicate}};
  EXPECT_EQ(*read, expected);
  const auto sum = sharding_from_dims("t (heads*d)[tp:sharded] # cp:partial", 2, mesh);
  ASSERT_TRUE(sum);
  EXPECT_EQ((*sum)[1].kind, Split::Kind::partial);
  for (const auto& [text, why] :
       {std::pair<std::string, std::string>{"b s", "'b s' for a tensor of 3 dimensions"},
        {"b s[ep] h", "no axis 'ep' in the mesh (dp, cp, tp)"},
        {"b s[tp:zig] h", "'zig' of axis 'tp'; expected zigzag"},
        {"b s[tp h", "'s[tp', whose bracket"},
        {"b s[] h", "whose bracket is empty"},
        {"b s h # tp", "'tp' behind #"},
        {"b s h # tp:zigzag", "behind #"}}) {
    const auto wrong = sharding_from_dims(text, 3, mesh);
    ASSERT_FALSE(wrong) << text;
    EXPECT_NE(wrong.error().detail.find(why), std::string::npos) << wrong.error().detail;
  }
}

TEST(Blocks, OfFourDimensionsAreRunsOfRows) {  // (2, 3, 4, 5), of which dimension 2 has [1, 3)
  const NdPlacement p{{2, 3, 4, 5}, {2, 3, 2, 5}, {{{0, 0, 1, 0}, {0, 0, 0, 0}, {2, 3, 2, 5}}}};
  const auto flat = flattened(p);
  ASSERT_TRUE(flat);
  EXPECT_EQ(flat->rows, 24U);
  EXPECT_EQ(flat->cols, 5U);
  ASSERT_EQ(flat->pieces.size(), 6U);
  EXPECT_EQ(flat->pieces[4], (Piece{{17, 0, 2, 5}, {8, 0, 2, 5}}));
}

TEST(Blocks, OfOneOfSeveralTensorsThatLieFused) {  // columns a a b, again and again
  const NdPlacement all{{2, 9}, {2, 5}, {{{0, 4}, {0, 0}, {2, 5}}}};
  const auto a = part_of(all, {1, 3, 0, 2}), b = part_of(all, {1, 3, 2, 1});
  ASSERT_TRUE(a);
  ASSERT_EQ(a->blocks.size(), 2U);  // column 4 is the second a of the second group
  EXPECT_EQ(a->whole, (Extents{2, 6}));
  EXPECT_EQ(a->blocks[0].global, (Extents{0, 3}));
  EXPECT_EQ(a->blocks[0].size, (Extents{2, 1}));
  EXPECT_EQ(a->blocks[1].global, (Extents{0, 4}));
  EXPECT_EQ(a->blocks[1].local, (Extents{0, 2}));
  ASSERT_EQ(b->blocks.size(), 2U);
  EXPECT_EQ(b->blocks[1].global, (Extents{0, 2}));
  EXPECT_EQ(b->blocks[1].local, (Extents{0, 4}));
  EXPECT_FALSE(part_of(all, {1, 4, 0, 2}));
  EXPECT_FALSE(part_of(all, {2, 3, 0, 2}));
  EXPECT_FALSE(part_of({{2, 9}, {2, 5}, {{{0}, {0}, {2}}}}, {1, 3, 0, 2}));
}

TEST(Blocks, OutsideAreRefusedWithoutWrappingAround) {
  constexpr std::size_t huge = ~std::size_t(0);
  for (const NdBlock& block : {NdBlock{{huge}, {0}, {2}}, NdBlock{{0}, {huge}, {2}},
                               NdBlock{{3}, {0}, {2}}, NdBlock{{0, 0}, {0, 0}, {1, 1}}}) {
    EXPECT_FALSE(flattened({{4}, {2}, {block}}));
  }
}

}  // namespace
}  // namespace plumb::placements_test
