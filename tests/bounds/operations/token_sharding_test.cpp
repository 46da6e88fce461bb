// Draws part the terms of a sum elsewhere: are all of them still there, each once, and is what
// every run rounds alike left alone?
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "bounds/examples/example.hpp"
#include "number/philox.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::token_sharding_test {
namespace {

// Two slices, and two ranks with two chunks each of two sequences of 32: as promised, and of draws.
TEST(TokenSharding, OfADrawMovesTheCutsByUpToHalfAPiece) {
  const Evaluation slices{2, fp32, fp32}, zigzag{4, fp32, fp32, {2, 32}};
  std::set<std::vector<std::size_t>> cuts, orders;
  for (const Evaluation& promised : {slices, zigzag}) {
    for (std::uint64_t key = 0; key <= 20; ++key) {
      Evaluation how = promised;
      how.tokens.key = key;
      const SumPartition of = parting(64, how);
      ASSERT_EQ(of.begins.size(), static_cast<std::size_t>(how.parts) + 1);
      EXPECT_EQ(of.begins.front(), 0U);
      EXPECT_EQ(of.begins.back(), 64U);
      EXPECT_TRUE(std::is_sorted(of.begins.begin(), of.begins.end()));
      for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(of.order[i], i);  // in every run the first
      std::vector<std::size_t> terms = of.order, all(64);
      std::sort(terms.begin(), terms.end());
      std::iota(all.begin(), all.end(), std::size_t(0));
      EXPECT_EQ(terms, all);
      if (promised.tokens.ranks == 1) {
        EXPECT_EQ(of.order, all);
        EXPECT_NEAR(static_cast<double>(of.begins[1]), 32, key == 0 ? 0 : 16);
      }
      cuts.insert(of.begins);
      orders.insert(of.order);
    }
  }
  EXPECT_GT(cuts.size(), 20U);
  EXPECT_GT(orders.size(), 15U);
}

// In FP64 other cuts change the last bits only: a term that is lost or taken twice would show. In
// FP32 they do change something.
TEST(TokenSharding, OfADrawAddsTheSameTermsInEveryOperation) {
  std::set<std::string> dealt;
  for (const Operation* operation : all_operations()) {
    for (int seed = 1; seed <= std::max(60, effort(60)); ++seed) {
      Draw draw("positive", static_cast<unsigned>(seed));
      Example e = example_of(operation->id, draw);
      if (e.how.parts == 1) continue;
      const auto as_promised = value_of(e);
      const auto in_fp32 = evaluation_of(e);
      e.how.tokens.key = static_cast<std::uint64_t>(seed);
      const auto drawn = value_of(e);
      if (evaluation_of(e) != in_fp32) dealt.insert(e.id);
      for (std::size_t i = 0; i < drawn.size(); ++i) {
        double size = 0;
        for (const double x : as_promised[i].values) size = std::max(size, std::fabs(x));
        for (std::size_t k = 0; k < drawn[i].size(); ++k) {
          ASSERT_NEAR(drawn[i].values[k], as_promised[i].values[k], 1e-12 * size) << e.id << seed;
        }
      }
    }
  }
  for (const char* id :
       {"gemm", "sum", "column_sum", "embedding_grad", "rmsnorm_wgrad", "head_norm_wgrad",
        "shared_key_grad", "layernorm_wgrad", "attention_grad", "balance_loss", "z_loss",
        "grouped_gemm", "grouped_wgrad", "grouped_column_sum", "cross_entropy"}) {
    EXPECT_TRUE(dealt.contains(id)) << id;
  }
}

// Four gradients on the coarse grid of short products, and their sums by two ranks: most lose no
// bit, and a transfer of FP32's ulps between the parts would make them lose some.
TEST(TokenSharding, OfFourTermsLiesAsFarOffAsTheRanksOwn) {
  Example e{"sum", {}, {}, {1, fp32, fp32}};
  for (const char* name : {"a", "b", "c", "d"}) {
    Matrix<double> x(64, 256);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double u = uniform(key_of(1, name), i) - 0.5;
      x.values[i] = std::nearbyint(u * u * u * 0x1p28) * 0x1p-20;  // mostly fewer than 24 bits
    }
    e.inputs.push_back(converted<double>(converted<float>(x)));
  }
  const Matrix<float> one = evaluation_of(e)[0];
  e.how.parts = 2;
  const auto energy = [&] {
    const Matrix<float> sums = evaluation_of(e)[0];
    double squares = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      squares += std::pow(static_cast<double>(sums.values[i]) - one.values[i], 2);
    }
    return squares;
  };
  const double candidate = energy();
  ASSERT_GT(candidate, 0);
  std::set<double> different;
  for (std::uint64_t key = 1; key <= 4; ++key) {
    e.how.tokens.key = key;
    different.insert(energy());
    // Some 2500 of the sums differ: energies scatter by about 1.5 sqrt(2 / 2500) = 0.04.
    EXPECT_NEAR(energy() / candidate, 1, 0.2) << key;
  }
  EXPECT_EQ(different.size(), 4U);
}

// P is rounded beside other numbers in a ring than on one rank, and in a draw than in the ring:
// each two of the three differ in about as many elements of o.
TEST(TokenSharding, OfADrawRoundsProbabilitiesOfARingElsewhere) {
  constexpr std::size_t sequence = 64;
  Example e{"attention",
            {Matrix<double>(sequence, 48)},
            {{"heads", 1}, {"kv_heads", 1}, {"head_dim", 16}, {"sequence", sequence}},
            {1, fp32, bf16}};
  for (std::size_t i = 0; i < e.inputs[0].size(); ++i) {
    e.inputs[0].values[i] = round_to(4 * uniform(key_of(1, "qkv"), i) - 2, bf16);
  }
  std::vector<Matrix<float>> runs{evaluation_of(e)[0]};
  e.how = {2, fp32, bf16, {2, sequence, 0, true}};
  runs.push_back(evaluation_of(e)[0]);
  e.how.tokens.key = 7;
  runs.push_back(evaluation_of(e)[0]);
  const auto differing = [&](std::size_t a, std::size_t b) {
    double n = 0;
    for (std::size_t i = 0; i < runs[a].size(); ++i) {
      n += runs[a].values[i] == runs[b].values[i] ? 0 : 1;
    }
    return n;
  };
  const double ring = differing(0, 1);
  EXPECT_GT(ring, 100);
  // Counts of some hundreds scatter by a tenth; ranks of the rows share what makes them differ.
  EXPECT_NEAR(differing(0, 2) / ring, 1, 0.3);
  EXPECT_NEAR(differing(1, 2) / ring, 1, 0.3);
}

// A key of the last chunk of a sequence is seen by queries of one rank alone, in every cut.
TEST(TokenSharding, OfADrawLeavesKeysToOneRankThatOneRankHas) {
  constexpr std::size_t sequence = 32, chunk = 8;
  Example e{"attention_grad",
            {},
            {{"heads", 1}, {"kv_heads", 1}, {"head_dim", 4}, {"sequence", sequence}},
            {1, fp32, fp32}};
  for (const std::size_t cols : {12U, 4U}) {
    Matrix<double> x(sequence, cols);
    for (std::size_t i = 0; i < x.size(); ++i) x.values[i] = uniform(key_of(cols, "x"), i) - 0.5;
    e.inputs.push_back(std::move(x));
  }
  const Matrix<float> one = evaluation_of(e)[0];
  e.how = {2, fp32, fp32, {2, sequence}};
  std::size_t elsewhere = 0;
  for (std::uint64_t key = 0; key <= 4; ++key) {
    e.how.tokens.key = key;
    const Matrix<float> d = evaluation_of(e)[0];
    for (std::size_t i = 0; i < sequence; ++i) {
      const bool equal = std::equal(d.row(i), d.row(i) + d.cols, one.row(i));
      if (i >= sequence - chunk / 2) {
        EXPECT_TRUE(equal) << key << " " << i;
      }
      elsewhere += equal ? 0 : 1;
    }
  }
  EXPECT_GT(elsewhere, 20U);
}

}  // namespace
}  // namespace plumb::token_sharding_test
