// Known sums of known algorithms, and that a tolerance notices another algorithm.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "bounds/collective.hpp"
#include "bounds/examples/example.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::all_reduce_test {
namespace {

constexpr double ring = 0, tree = 1, rank_order = 2, any_order = 3;

Example example(std::string_view kind, std::size_t ranks, double algorithm, const Format& wire,
                unsigned seed = 1, const Format& in = fp32) {
  Draw draw(kind, seed);
  Example e{"all_reduce", {}, {{"algorithm", algorithm}}, {1, wire, fp32}};
  for (std::size_t r = 0; r < ranks; ++r) e.inputs.push_back(draw.matrix(8, 16, in));
  return e;
}

Example of_numbers(const std::vector<double>& numbers, double algorithm, const Format& wire) {
  Example e{"all_reduce", {}, {{"algorithm", algorithm}}, {1, wire, fp32}};
  for (const double x : numbers) e.inputs.emplace_back(1, numbers.size(), x);
  return e;
}

// 256 + 1 is no BF16 number: it rounds to 256; 256 + 2 is one, and 256 + 3 rounds to 260.
TEST(AllReduce, AddsInTheOrderOfItsAlgorithm) {
  const std::vector<double> x{256, 1, 1, 1};
  // Chunk c begins at rank c, and each takes the others in turn.
  EXPECT_EQ(evaluation_of(of_numbers(x, ring, bf16))[0].values,
            (Tensor::Numbers{256, 260, 260, 256}));
  EXPECT_EQ(evaluation_of(of_numbers(x, tree, bf16))[0].values[0], 258);
  EXPECT_EQ(evaluation_of(of_numbers(x, rank_order, bf16))[0].values[0], 260);  // 259, a tie
  EXPECT_EQ(evaluation_of(of_numbers(x, ring, fp32))[0].values[0], 259);
  Example turned = of_numbers(x, ring, bf16);
  turned.attributes["rotation"] = 1;
  EXPECT_EQ(evaluation_of(turned)[0].values, (Tensor::Numbers{260, 260, 256, 256}));
}

TEST(AllReduce, OneRankSendsNothing) {
  const Example e = of_numbers({1.0 + 0x1p-20}, ring, bf16);
  EXPECT_EQ(evaluation_of(e)[0].values[0], 1.0F + 0x1p-20F);
  EXPECT_EQ(tolerance_of(e)->bound[0].values[0], 0);
}

// Rings of every rotation stay within the tolerance that names none, and some leave that of
// another.
TEST(AllReduce, ARingWithoutARotationHoldsForAll) {
  std::size_t outside_of_one = 0;
  for (int seed = 1; seed <= effort(20); ++seed) {
    const char* kind = input_kinds[static_cast<std::size_t>(seed) % input_kinds.size()];
    Example e = example(kind, 8, ring, bf16, static_cast<unsigned>(seed));
    const auto any = tolerance_of(e);
    const auto value = value_of(e)[0];
    ASSERT_TRUE(any);
    e.attributes["rotation"] = 0;
    const auto one = tolerance_of(e);
    for (int r = 0; r < 8; ++r) {
      e.attributes["rotation"] = r;
      const Tensor y = evaluation_of(e)[0];
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double error = std::fabs(static_cast<double>(y.values[i]) - value.values[i]);
        ASSERT_LE(error, any->bound[0].values[i]) << kind << seed << " rotation " << r;
        outside_of_one += error > one->bound[0].values[i] ? 1 : 0;
      }
    }
  }
  EXPECT_GT(outside_of_one, 0U);
}

TEST(AllReduce, ASwitchHoldsForAnyOrderOfRanks) {
  std::mt19937 random(4);
  double nearest = 0;
  for (int seed = 1; seed <= effort(60); ++seed) {
    const char* kind = input_kinds[static_cast<std::size_t>(seed) % input_kinds.size()];
    const Example e = example(kind, 2 + random() % 12, any_order, seed % 2 == 0 ? bf16 : fp32,
                              static_cast<unsigned>(seed));
    const auto t = tolerance_of(e);
    const auto value = value_of(e)[0];
    ASSERT_TRUE(t);
    Example shuffled = e;
    for (int i = 0; i < 10; ++i) {
      std::shuffle(shuffled.inputs.begin(), shuffled.inputs.end(), random);
      const Tensor y = evaluation_of(shuffled)[0];
      for (std::size_t j = 0; j < y.size(); ++j) {
        const double error = std::fabs(static_cast<double>(y.values[j]) - value.values[j]);
        ASSERT_LE(error, t->bound[0].values[j]) << kind << seed;
        if (error > 0) nearest = std::max(nearest, error / t->bound[0].values[j]);
      }
    }
  }
  EXPECT_GT(nearest, 0.5);
  EXPECT_FALSE(tolerance_of(example("plain", 4, any_order, bf16), Mode::moments));
}

// The sums alone: no rounding to a wire hides them.
TEST(AllReduce, TheSumsOfASwitchNeedTheirShare) {
  double nearest = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    const Example e = example("positive", 2, any_order, fp32, seed);
    const double error_free = tolerance_of(e)->bound[0].values[0];
    const Tensor y = evaluation_of(e)[0];
    const auto value = value_of(e)[0];
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double error = std::fabs(static_cast<double>(y.values[i]) - value.values[i]);
      nearest = std::max(nearest, error / tolerance_of(e)->bound[0].values[i]);
    }
    ASSERT_GT(error_free, 0);
  }
  EXPECT_GT(nearest, 0.4);
  EXPECT_LE(nearest, 1);
}

TEST(AllReduce, ANarrowerWireAndALossierAlgorithmAreSeen) {
  std::size_t wire = 0, algorithm = 0;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    Example promised = example("positive", 8, rank_order, bf16, seed), ran = promised;
    ran.attributes["algorithm"] = ring;
    Comparison verdict;
    judge(promised, evaluation_of(ran), verdict);
    algorithm += verdict.violations > 0 ? 1 : 0;
    promised.how.wire = fp32;
    Comparison narrower;
    judge(promised, evaluation_of(ran), narrower);
    wire += narrower.violations > narrower.elements / 2 ? 1 : 0;
  }
  EXPECT_GE(algorithm, 8U);
  EXPECT_EQ(wire, 10U);
}

TEST(AllReduce, ATreeIsNoLooserThanARing) {
  const Example one = example("positive", 16, ring, bf16),
                other = example("positive", 16, tree, bf16);
  const auto sum = [](const Matrix<double>& m) {
    return std::accumulate(m.values.begin(), m.values.end(), 0.0);
  };
  EXPECT_LT(1.5 * sum(tolerance_of(other)->bound[0]), sum(tolerance_of(one)->bound[0]));
}

TEST(AllReduce, RefusesInASentence) {
  for (const auto& attributes :
       {Attributes{}, Attributes{{"algorithm", 4}}, Attributes{{"algorithm", -1}},
        Attributes{{"algorithm", ring}, {"rotation", 4}},
        Attributes{{"algorithm", ring}, {"rotation", -1}},
        Attributes{{"algorithm", tree}, {"rotation", 1}}}) {
    Example e = example("plain", 4, ring, bf16);
    e.attributes = attributes;
    EXPECT_THROW((void)evaluation_of(e), std::invalid_argument);
    EXPECT_THROW((void)tolerance_of(e), std::invalid_argument);
  }
}

}  // namespace
}  // namespace plumb::all_reduce_test
