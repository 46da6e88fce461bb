// Is the order in which ranks add up found from sums alone, and what travels between them?
#include "probe/collective.hpp"

#include <gtest/gtest.h>

#include "bounds/examples/example.hpp"
#include "number/rounding.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::probe::collective_test {
namespace {

using Algorithm = Collective::Algorithm;

// As the operation all_reduce promises it.
AllReduce promised(const Collective& how) {
  return [how](const Tensor& ranks) {
    Example e{
        "all_reduce", {}, {{"algorithm", static_cast<double>(how.algorithm)}}, {1, how.wire, fp32}};
    if (how.rotation) e.attributes["rotation"] = *how.rotation;
    for (std::size_t r = 0; r < ranks.rows; ++r) {
      Matrix<double>& x = e.inputs.emplace_back(1, ranks.cols);
      for (std::size_t i = 0; i < ranks.cols; ++i) x.values[i] = static_cast<double>(ranks(r, i));
    }
    return evaluation_of(e)[0];
  };
}

std::string words(const Collective& is) {
  return std::string(algorithm_names[static_cast<std::size_t>(is.algorithm)]) + " " +
         std::string(is.wire.name) + (is.rotation ? " " + std::to_string(*is.rotation) : "");
}
std::string words(const CollectiveFound& found) { return found.is ? words(*found.is) : found.why; }

TEST(Collectives, AreFoundAsTheyArePromised) {
  for (const int ranks : {3, 4, 5, 8}) {
    for (const Format& wire : {fp32, bf16, fp16}) {
      std::vector<Collective> all{{Algorithm::rank_order, ranks, wire, {}}};
      if (ranks > 3) all.push_back({Algorithm::tree, ranks, wire, {}});
      for (int r = 0; r < ranks; ++r) all.push_back({Algorithm::ring, ranks, wire, r});
      for (const Collective& how : all) {
        const auto n = static_cast<std::size_t>(ranks);
        const CollectiveFound found = collective_of(promised(how), n, 4 * n);
        EXPECT_EQ(words(found), words(how)) << ranks;
        EXPECT_EQ(found.held.outside, 0U);
        EXPECT_EQ(found.held.elements, 4 * 4 * n);
        EXPECT_GT(found.held.worst, 0.05);
      }
    }
  }
}

// Three ranks: halves are rank 0, and ranks 1 and 2; what has no name is any order.
TEST(Collectives, OfOrdersWithoutANameAreAnyOrder) {
  const auto ring_backwards = [](const Tensor& x) {
    Tensor y(1, x.cols);
    for (std::size_t e = 0; e < x.cols; ++e) {
      y(0, e) = ((x(4, e) + x(2, e)) + (x(0, e) + x(3, e))) + x(1, e);
    }
    return y;
  };
  const CollectiveFound found = collective_of(ring_backwards, 5, 10);
  EXPECT_EQ(words(found), "any_order fp32");
  EXPECT_EQ(text_of(found.trees[0]), "(((0 + 3) + (2 + 4)) + 1)");
  EXPECT_EQ(found.held.outside, 0U);
}

// Where short numbers travel, any_order says that sums are rounded to them once.
TEST(Collectives, OfOrdersWithoutANameAreKnownIfSumsAreRoundedOnce) {
  const auto made = [](bool each_step) {
    return [each_step](const Tensor& x) {
      const auto cut = [](float v) { return round_to(v, bf16); };
      const auto kept = [&](float v) { return each_step ? cut(v) : v; };
      Tensor y(1, x.cols);
      for (std::size_t e = 0; e < x.cols; ++e) {
        y(0, e) = cut(kept(cut(x(3, e)) + cut(x(1, e))) + kept(cut(x(2, e)) + cut(x(0, e))));
      }
      return y;
    };
  };
  EXPECT_EQ(words(collective_of(made(false), 4, 8)), "any_order bf16");
  EXPECT_EQ(words(collective_of(made(true), 4, 8)),
            "no algorithm that has a name explains the trees");
}

// Sums in more bits swallow ones beside the masks, too: what differs are the bits.
TEST(Collectives, ThatAddInMoreBitsAreNotKnown) {
  const auto wider = [](const Tensor& x) {
    Tensor y(1, x.cols);
    for (std::size_t e = 0; e < x.cols; ++e) {
      long double sum = 0;
      for (std::size_t r = 0; r < x.rows; ++r) sum += static_cast<long double>(x(r, e));
      y(0, e) = static_cast<float>(sum);
    }
    return y;
  };
  EXPECT_EQ(words(collective_of(wider, 4, 8)),
            "what its trees explain does not make the bits of drawn messages");
}

TEST(Collectives, NonsenseIsNotKnown) {
  const auto nothing = [](const Tensor& x) { return Tensor(1, x.cols); };
  EXPECT_EQ(words(collective_of(nothing, 4, 8)),
            "no format makes of a single rank's numbers what comes back");
  const auto average = [](const Tensor& x) {
    Tensor y(1, x.cols);
    for (std::size_t e = 0; e < x.cols; ++e) {
      for (std::size_t r = 0; r < x.rows; ++r) y(0, e) += x(r, e);
      if (x(0, e) != 0 && x(1, e) != 0) y(0, e) *= 0.3F;
    }
    return y;
  };
  EXPECT_EQ(words(collective_of(average, 4, 8)), "masked sums of the ranks contradict each other");
}

}  // namespace
}  // namespace plumb::probe::collective_test
