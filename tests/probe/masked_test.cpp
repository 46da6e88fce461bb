// Do masked sums give the tree of whatever made them, in each format and with each rounding?
#include "probe/masked.hpp"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>

#include "tests/support/rooms.hpp"

namespace plumb::probe::masked_test {
namespace {

TEST(Masked, SumsGiveTheirTree) {
  for (const Format& input : {fp32, tf32, bf16, fp16, e5m2}) {
    for (const Rounding how : {Rounding::nearest_even, Rounding::toward_zero, Rounding::away}) {
      Order order = *parse_order("lanes 3 pairwise");
      order.rounding = how;
      const Subject subject = subject_of(Emulated{.order = order}, input);
      for (const std::size_t n : {1, 2, 3, 7, 20}) {
        const Tree tree = tree_of(subject, n);
        EXPECT_TRUE(same(tree, tree_of(order, n)))
            << input.name << " " << n << " " << text_of(tree);
      }
    }
  }
}

TEST(Masked, ProductsOfAMatrixUnitMeetInItsSteps) {
  for (const Format& input : {fp16, bf16, e4m3fn, e5m2}) {
    const Mma unit{input, 8, 13, 13, 32};
    const Subject subject = subject_of(Emulated{.unit = unit}, input);
    for (const std::size_t n : {3, 8, 20, 100}) {
      EXPECT_TRUE(same(tree_of(subject, n), tree_of(unit, {}, n))) << input.name << " " << n;
    }
  }
}

// A result that no sum of the masks has.
TEST(Masked, NonsenseGivesNoTree) {
  Subject subject = subject_of(Emulated{}, fp32);
  const auto sound = subject.multiply;
  subject.multiply = [sound](const std::vector<Operands>& asked) {
    std::vector<Tensor> all = sound(asked);
    for (Tensor& c : all) {
      for (float& x : c.values) x = std::fabs(x) + 0x1p-30F;
    }
    return all;
  };
  EXPECT_FALSE(tree_of(subject, 8));
}

// What is added to the mask -L does not vanish where a processor rounds toward zero: there products
// are 1 one at a time.
TEST(Masked, SumsThatAProcessorRoundsTowardZeroGiveTheirTree) {
  Subject subject = subject_of(Emulated{}, fp32);
  subject.multiply = [](const std::vector<Operands>& asked) {
    std::vector<Tensor> all;
    std::fesetround(FE_TOWARDZERO);
    for (const auto& [a, b] : asked) {
      Tensor c(a.rows, b.cols);
      for (std::size_t i = 0; i < c.rows; ++i) {
        for (std::size_t k = a.cols; k-- > 0;) {  // from the last product on
          for (std::size_t j = 0; j < c.cols; ++j) c(i, j) += a(i, k) * b(k, j);
        }
      }
      all.push_back(std::move(c));
    }
    std::fesetround(FE_TONEAREST);
    return all;
  };
  for (const std::size_t n : {3, 8, 20}) {
    Tree backwards = leaf(n - 1);
    for (std::size_t k = n - 1; k-- > 0;) backwards = sum_of({backwards, leaf(k)});
    EXPECT_TRUE(same(tree_of(subject, n), backwards)) << text_of(tree_of(subject, n));
  }
}

// A kernel whose elements have several orders: the tree is that of the first one.
TEST(Masked, ElementsOfSeveralOrdersAreToldApart) {
  Subject subject = subject_of(Emulated{}, fp32);
  subject.tile = 4;
  const auto first = subject.multiply;
  const auto others = subject_of(Emulated{.order = *parse_order("lanes 4 strided")}, fp32).multiply;
  subject.multiply = [first, others](const std::vector<Operands>& asked) {
    std::vector<Tensor> all = first(asked), rest = others(asked);
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::copy_n(rest[i].row(all[i].rows / 2), rest[i].size() / 2, all[i].row(all[i].rows / 2));
    }
    return all;
  };
  EXPECT_EQ(text_of(tree_of(subject, 12)), "0..11");
}

// Formats whose numbers lie so near together that nothing vanishes tell nothing.
TEST(Masked, ShortRangesGiveNoTree) { EXPECT_FALSE(tree_of(subject_of(Emulated{}, e2m1), 8)); }

}  // namespace
}  // namespace plumb::probe::masked_test
