// Does merging make whole tensors, and does each way of not fitting become a finding?
#include "trace/merge.hpp"
#include "tests/support/rooms.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace plumb::merge_test {
namespace {

Tensor filled(std::size_t rows, std::size_t cols, float value) { return {rows, cols, value}; }

Trace two_ranks(Shard first, Shard second) {
  Trace trace;
  trace.ranks.resize(2);
  trace.ranks[0].shards["x"] = std::move(first);
  trace.ranks[1].shards["x"] = std::move(second);
  return trace;
}

TEST(Merge, JoinsSlicesOfRowsAndColumns) {
  const Merged rows = merge(two_ranks({row_slice(2, 3, 0, 1), filled(1, 3, 1), fp32},
                                      {row_slice(2, 3, 1, 2), filled(1, 3, 2), fp32}));
  EXPECT_TRUE(rows.findings.empty());
  EXPECT_EQ(rows.values.at("x")->values, (Tensor::Numbers{1, 1, 1, 2, 2, 2}));
  const Merged columns = merge(two_ranks({column_slice(2, 2, 0, 1), filled(2, 1, 1), fp32},
                                         {column_slice(2, 2, 1, 2), filled(2, 1, 2), fp32}));
  EXPECT_EQ(columns.values.at("x")->values, (Tensor::Numbers{1, 2, 1, 2}));
}

TEST(Merge, JoinsZigzagPieces) {  // rank 0 owns rows 0 and 3, rank 1 rows 1 and 2
  Placement outer{4, 1, {{{0, 0, 1, 1}, {0, 0, 1, 1}}, {{3, 0, 1, 1}, {1, 0, 1, 1}}}};
  Placement inner{4, 1, {{{1, 0, 2, 1}, {0, 0, 2, 1}}}};
  const Merged merged =
      merge(two_ranks({outer, filled(2, 1, 1), fp32}, {inner, filled(2, 1, 2), fp32}));
  EXPECT_TRUE(merged.findings.empty());
  EXPECT_EQ(merged.values.at("x")->values, (Tensor::Numbers{1, 2, 2, 1}));
}

TEST(Merge, HoldsWhatBackwardComputedAgainToTheSameBits) {
  Trace trace = two_ranks({row_slice(2, 1, 0, 1), filled(1, 1, 1), fp32},
                          {row_slice(2, 1, 1, 2), filled(1, 1, 2), fp32});
  trace.ranks[1].shards["x@recompute"] = trace.ranks[1].shards["x"];
  EXPECT_TRUE(merge(trace).findings.empty());
  EXPECT_FALSE(merge(trace).values.contains("x@recompute"));
  trace.ranks[1].shards["x@recompute"].values.values[0] = 3;
  const Merged merged = merge(trace);
  ASSERT_EQ(merged.findings.size(), 1U);
  EXPECT_EQ(merged.findings[0].id, "x");
}

TEST(Merge, SumsParts) {
  Placement first = whole(1, 2);
  first.parts = 2;
  Placement second = first;
  second.part = 1;
  const Merged merged =
      merge(two_ranks({first, filled(1, 2, 1), fp32}, {second, filled(1, 2, 2), fp32}));
  EXPECT_TRUE(merged.findings.empty());
  EXPECT_EQ(merged.values.at("x")->values, (Tensor::Numbers{3, 3}));
}

// Ranks have the sum in the format that they added in.
TEST(Merge, RoundsASumOfSixteenBitsAsRanksDo) {
  Placement first = whole(1, 1);
  first.parts = 2;
  Placement second = first;
  second.part = 1;
  const auto sum_in = [&](const Format& format) {
    return merge(
               two_ranks({first, filled(1, 1, 1), format}, {second, filled(1, 1, 0x1p-9F), format}))
        .values.at("x")
        ->values[0];
  };
  EXPECT_EQ(sum_in(fp32), 1 + 0x1p-9F);
  EXPECT_EQ(sum_in(bf16), 1);
  EXPECT_EQ(sum_in(fp16), 1 + 0x1p-9F);
}

TEST(Merge, FindsAMissingPart) {
  Placement first = whole(1, 2);
  first.parts = 2;
  EXPECT_EQ(merge(two_ranks({first, filled(1, 2, 1), fp32}, {first, filled(1, 2, 1), fp32}))
                .findings.size(),
            1U);
}

TEST(Merge, FindsReplicasThatDisagreeInOneBit) {
  Tensor other = filled(1, 2, 1);
  other.values[1] = std::nextafter(1.0F, 2.0F);
  const Merged merged =
      merge(two_ranks({whole(1, 2), filled(1, 2, 1), fp32}, {whole(1, 2), other, fp32}));
  ASSERT_EQ(merged.findings.size(), 1U);
  EXPECT_NE(merged.findings[0].detail.find("(0, 1)"), std::string::npos);
}

TEST(Merge, FindsHolesAndPiecesOutside) {
  EXPECT_EQ(merge(two_ranks({row_slice(3, 1, 0, 1), filled(1, 1, 1), fp32},
                            {row_slice(3, 1, 1, 2), filled(1, 1, 1), fp32}))
                .findings.size(),
            1U);
  Placement far = whole(2, 2);
  far.pieces[0].global.row = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(
      merge(two_ranks({far, filled(2, 2, 1), fp32}, {far, filled(2, 2, 1), fp32})).findings.size(),
      1U);
}

TEST(Merge, FindsWhatIsNotFinite) {
  Tensor bad = filled(1, 2, 1);
  bad.values[0] = std::numeric_limits<float>::quiet_NaN();
  const auto findings =
      merge(two_ranks({whole(1, 2), bad, fp32}, {whole(1, 2), bad, fp32})).not_finite;
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_NE(findings[0].detail.find("not finite"), std::string::npos);
}

}  // namespace
}  // namespace plumb::merge_test
