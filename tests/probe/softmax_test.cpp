// Is the order in which a softmax adds its exponentials found from its results?
#include "probe/softmax.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "probe/tables.hpp"
#include "probe/triples.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::probe::softmax_test {
namespace {

Emulated sums_in(const std::string& text, Rounding how = Rounding::nearest_even) {
  Emulated sums{.order = *parse_order(text)};
  sums.order.rounding = how;
  return sums;
}

Subject with_softmax(const Tables& softmax) {
  Subject subject = subject_of(Emulated{}, fp32);
  subject.tables["softmax"] = softmax;
  return subject;
}
template <class Each>
Subject with_each(Each each) {
  return with_softmax([each](const std::vector<Tensor>& asked) {
    std::vector<Tensor> all;
    for (const Tensor& x : asked) all.push_back(each(x));
    return all;
  });
}

SumsFound found_of(const Subject& subject, std::size_t longest = 256) {
  CalibrateOptions options;
  options.longest = longest;
  return order_of_softmax(subject, options);
}
SumsFound found_of(const Emulated& sums, std::size_t longest = 256) {
  return found_of(with_each([sums](const Tensor& x) { return emulated_softmax(x, sums); }),
                  longest);
}
std::string order_in(const SumsFound& found) {
  return found.order ? plumb::text_of(*found.order) : found.why;
}

TEST(Softmax, TellsTheOrderOfItsSum) {
  for (const std::string order :
       {"sequential", "pairwise", "blocked 16", "blocked 32 swapped", "split 3", "lanes 8 strided",
        "lanes 16 pairwise", "lanes 5 sequential"}) {
    for (const Rounding how : {Rounding::nearest_even, Rounding::toward_zero}) {
      const SumsFound found = found_of(sums_in(order, how));
      EXPECT_EQ(order_in(found), order + " up to 256");
      ASSERT_TRUE(found.order);
      EXPECT_EQ(found.order->rounding, how);
    }
  }
}

// Blocks that are longer than the trees look like a chain until a partial sum of a longer one is asked for.
TEST(Softmax, AnOrderIsClaimedUpToTheLengthThatItHolds) {
  EXPECT_EQ(order_in(found_of(sums_in("blocked 150"))), "sequential up to 128");
}

TEST(Softmax, ThatRoundsOtherwiseIsNotTold) {
  for (const Rounding how : {Rounding::away, Rounding::stochastic}) {
    EXPECT_EQ(order_in(found_of(sums_in("sequential", how), 32)),
              "results do not tell where exponentials meet");
  }
}

// A sum in FP64 loses nothing here.
TEST(Softmax, ThatAddsInMoreBitsIsNotTold) {
  const Subject subject = with_each([](const Tensor& x) {
    Tensor p = x;
    for (std::size_t i = 0; i < p.rows; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < p.cols; ++j) sum += std::exp(static_cast<double>(x(i, j)));
      for (std::size_t j = 0; j < p.cols; ++j) {
        p(i, j) = static_cast<float>(std::exp(static_cast<double>(x(i, j))) / sum);
      }
    }
    return p;
  });
  EXPECT_EQ(order_in(found_of(subject, 32)), "results do not tell where exponentials meet");
}

// Taken about the largest number so far, as flash kernels do.
TEST(Softmax, ThatIsTakenOnlineIsAChain) {
  const Subject subject = with_each([](const Tensor& x) {
    Tensor p = x;
    for (std::size_t i = 0; i < p.rows; ++i) {
      float largest = x(i, 0), sum = 1;
      for (std::size_t j = 1; j < x.cols; ++j) {
        const float now = std::max(largest, x(i, j));
        sum = sum * std::exp(largest - now) + std::exp(x(i, j) - now);
        largest = now;
      }
      for (std::size_t j = 0; j < x.cols; ++j) p(i, j) = std::exp(x(i, j) - largest) / sum;
    }
    return p;
  });
  EXPECT_EQ(order_in(found_of(subject, 100)), "sequential up to 100");
}

TEST(Softmax, WhoseSingleRowsAreTakenOtherwiseHasNoOrder) {
  const Subject subject = with_each([](const Tensor& x) {
    return emulated_softmax(x, sums_in(x.rows == 1 ? "lanes 4 strided" : "sequential"));
  });
  EXPECT_EQ(order_in(found_of(subject, 100)),
            "sequential up to 100 explains tables of many rows, and not single rows");
}

// The claim that triples_of() makes: another tree answers one of them with no.
TEST(Softmax, NoOtherTreeAnswersTheQuestionsOfATree) {
  std::vector<Tree> trees;
  for (const char* order : {"sequential", "pairwise", "blocked 7", "blocked 8", "split 3",
                            "lanes 3 strided", "lanes 4 pairwise", "lanes 4 sequential",
                            "sequential swapped", "pairwise swapped", "lanes 4 strided swapped"}) {
    trees.push_back(tree_of(*parse_order(order), 30));
  }
  for (const Tree& tree : trees) {
    const std::vector<Triple> asked = triples_of(tree);
    EXPECT_EQ(asked.size(), 28U);
    for (const Tree& other : trees) {
      const auto answers = answers_of(other, asked);
      EXPECT_EQ(std::ranges::count(answers, false) == 0, same(tree, other))
          << text_of(tree) << " and " << text_of(other);
    }
  }
}

}  // namespace
}  // namespace plumb::probe::softmax_test
