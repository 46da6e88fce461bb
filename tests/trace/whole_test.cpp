// Is a tensor that is put together as it is read the one that merging makes, whatever stretch is
// read; and does nothing depend on how many threads read it?
#include "trace/whole.hpp"
#include "tests/support/rooms.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "trace/merge.hpp"
#include "trace/pairs.hpp"

namespace plumb::whole_test {
namespace {

using Random = std::mt19937;

std::size_t below(std::size_t n, Random& random) { return random() % n; }

Tensor drawn(std::size_t rows, std::size_t cols, Random& random) {
  Tensor t(rows, cols);
  for (float& x : t.values) x = static_cast<float>(below(1000, random)) - 500;
  return t;
}

// Some blocks of a tensor, wherever they lie, in some ranks; some of them replicas that are wrong.
Trace blocks_of(const Tensor& whole, int parts, Random& random) {
  Trace trace;
  trace.ranks.resize(4);
  for (RankRecord& rank : trace.ranks) {
    Placement p{whole.rows, whole.cols, {}};
    p.parts = parts;
    p.part = static_cast<int>(below(static_cast<std::size_t>(parts), random));
    for (std::size_t n = below(4, random) + 1; n > 0; --n) {
      const std::size_t row = below(whole.rows, random), col = below(whole.cols, random);
      const Block at{row, col, below(whole.rows - row, random) + 1,
                     below(whole.cols - col, random) + 1};
      p.pieces.push_back({at, at});
    }
    Tensor mine = whole;
    if (below(3, random) == 0) mine.values[mine.size() / 2] += 1;
    if (below(6, random) == 0) mine.values[below(mine.size(), random)] = NAN;
    rank.shards["x"] = {p, mine, fp32};
  }
  return trace;
}

// Merging, element by element: who has it first counts.
Tensor plainly(const Trace& trace, const Tensor& like, int parts) {
  Tensor sum(like.rows, like.cols);
  for (int part = 0; part < parts; ++part) {
    Tensor one(like.rows, like.cols);
    std::vector<bool> there(like.size());
    for (const RankRecord& rank : trace.ranks) {
      const Shard& shard = rank.shards.at("x");
      for (const Piece& p : shard.placement.pieces) {
        for (std::size_t i = 0; i < p.global.rows && shard.placement.part == part; ++i) {
          for (std::size_t j = 0; j < p.global.cols; ++j) {
            const std::size_t e = (p.global.row + i) * like.cols + p.global.col + j;
            if (!there[e]) one.values[e] = shard.values(p.local.row + i, p.local.col + j);
            there[e] = true;
          }
        }
      }
    }
    for (std::size_t e = 0; e < sum.size(); ++e) sum.values[e] += one.values[e];
  }
  return sum;
}

TEST(Wholes, AreWhatTheFirstHolderOfEachElementHas) {
  std::size_t disagree = 0, holes = 0, broken = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    Random random(seed);
    const Tensor like = drawn(below(40, random) + 1, below(500, random) + 1, random);
    const int parts = seed % 4 == 0 ? 2 : 1;
    const Trace trace = blocks_of(like, parts, random);
    const Tensor plain = plainly(trace, like, parts);
    const Merged merged = merge(trace);
    const plumb::trace::Run run(trace);
    const Whole& whole = run.values.at("x");
    for (int draw = 0; draw < 8; ++draw) {
      const std::size_t first = below(like.size(), random);
      const std::size_t n = below(like.size() - first, random) + 1;
      Reading reading(whole);
      const float* x = reading(first, n);
      ASSERT_EQ(std::memcmp(x, plain.values.data() + first, n * sizeof(float)), 0) << seed;
      ASSERT_EQ(std::memcmp(x, merged.values.at("x")->values.data() + first, n * sizeof(float)), 0);
    }
    for (const Finding& f : merged.findings) {
      disagree += f.detail.starts_with("replicas disagree") ? 1 : 0;
      holes += f.detail.starts_with("no rank holds") ? 1 : 0;
    }
    broken += merged.not_finite.size();
  }
  EXPECT_GT(disagree, 50U);  // that the draw is not trivial
  EXPECT_GT(holes, 50U);
  EXPECT_GT(broken, 20U);
}

TEST(Wholes, AreComparedAlikeByAnyNumberOfThreads) {
  Random random(1);
  Trace reference, candidate;
  reference.ranks.resize(1);
  candidate.ranks.resize(2);
  for (int n = 0; n < 40; ++n) {
    const std::string id = "x" + std::to_string(n);
    const std::size_t rows = 2 * below(100, random) + 2, cols = below(300, random) + 1;
    const Tensor r = drawn(rows, cols, random), c = drawn(rows, cols, random);
    reference.ranks[0].shards[id] = {whole(rows, cols), r, fp32};
    candidate.ranks[0].shards[id] = {whole(rows, cols), n % 3 == 0 ? r : c, fp32};
    if (n % 2 == 0) candidate.ranks[1].shards[id] = {whole(rows, cols), c, fp32};
  }
  const auto seen_by = [&](std::size_t threads) {
    plumb::trace::Run r(reference), c(candidate);
    const Pairs pairs = compare(r, c, {true, nullptr, {threads}});
    std::string all;
    for (const auto& [id, p] : pairs) {
      all += id + std::to_string(p.difference.squares) + std::to_string(p.equal) +
             std::to_string(p.close) + "\n";
    }
    for (const Finding& f : c.findings) all += f.detail + "\n";
    return all;
  };
  const std::string one = seen_by(1);
  EXPECT_NE(one.find("replicas disagree: ranks 0 and 1 hold "), one.npos);
  for (const std::size_t threads : {2U, 3U, 16U}) EXPECT_EQ(seen_by(threads), one);
}

}  // namespace
}  // namespace plumb::whole_test
