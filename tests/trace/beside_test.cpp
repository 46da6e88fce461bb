// Are twins that lie beside their reference told from twins that lie around it, at the chance that is said?
#include "trace/beside.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "number/philox.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::beside_test {
namespace {

// Of tensors that are rounded otherwise by one number each: all by the same (`together`), or each by
// its own. Twins are `apart` beside the reference, in units of their spread.
std::vector<Measured> tensors(std::size_t n, std::size_t twins, bool together, double apart,
                              std::uint64_t seed) {
  std::vector<Measured> all(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto drawn = [&](std::size_t k) {
      return static_cast<float>(1e-3 * normal(seed, 100 * (together ? 0 : i) + k));
    };
    const auto of = [&](float by) {
      Tensor x(8, 4);
      for (std::size_t e = 0; e < x.size(); ++e) x.values[e] = 1 + by * static_cast<float>(e % 3);
      return Whole(std::make_shared<const Tensor>(x), fp32);
    };
    std::vector<Whole> around;
    for (std::size_t k = 1; k <= twins; ++k)
      around.push_back(of(drawn(k) + static_cast<float>(1e-3 * apart)));
    all[i].id = std::to_string(i);
    all[i].draws.resize(twins);
    all[i].beside = beside(of(drawn(0)), around);
  }
  return all;
}

TEST(Beside, OfAReferenceThatIsOneOfThemHasTheChanceThatItSays) {
  for (const bool together : {true, false}) {
    std::size_t told = 0;
    const std::size_t runs = 2000;
    for (std::uint64_t seed = 1; seed <= runs; ++seed) {
      told += beside(tensors(20, 4, together, 0, seed))->chance < 0.1 ? 1 : 0;
    }
    EXPECT_LT(static_cast<double>(told), 0.1 * runs) << together;
    EXPECT_GT(told, 0U) << together;  // it can be said
  }
}

TEST(Beside, IsSeenInOneTensorOfManyAndInAll) {
  std::vector<Measured> all = tensors(200, 4, false, 0, 1);
  EXPECT_GT(beside(all)->chance, 1e-2);
  all[7].beside = tensors(1, 4, false, 1000, 2).front().beside;
  EXPECT_LT(beside(all)->chance, 1e-3);
  EXPECT_EQ(beside(all)->farthest, "7");
  EXPECT_LT(beside(tensors(200, 4, false, 30, 1))->chance, 1e-3);
}

TEST(Beside, IsNothingWhereNothingMovesOrTwinsAreTooFew) {
  EXPECT_FALSE(beside({}));
  EXPECT_FALSE(beside(tensors(3, 2, false, 1000, 1)));
  std::vector<Measured> still = tensors(3, 4, false, 1000, 1);
  for (Measured& m : still) m.touched = false;
  EXPECT_FALSE(beside(still));
}

// A number that all twins round to the other side is no more than a rounding beside.
TEST(Beside, OfTwinsThatAreAlikeIsCountedInLastBits) {
  Tensor reference(1, 1, 1), other(1, 1, std::nextafter(1.0F, 2.0F));
  const auto of = [](const Tensor& x) { return Whole(std::make_shared<const Tensor>(x), fp32); };
  EXPECT_LT(beside(of(reference), {of(other), of(other), of(other), of(other)}), 4);
  EXPECT_EQ(beside(of(reference), {of(reference), of(reference), of(reference)}), 0);
  // Of a zero nobody knows the last bit: no twin differs from another, and each from the reference.
  std::vector<Measured> zero = tensors(1, 4, false, 0, 1);
  other.values[0] = std::nextafter(1.5F, 2.0F);
  zero[0].beside = beside(of(Tensor(1, 1)), {of(other), of(other), of(other), of(other)});
  EXPECT_EQ(beside(zero)->chance, 0);
}

// A scale is made of one number of BF16, and a count is whole: all twins may have the next one.
TEST(Beside, OfNumbersThatAreMadeOfFewBitsIsCountedInTheirs) {
  const auto of = [](std::size_t n, float x) {
    return Whole(std::make_shared<const Tensor>(Tensor(n, 1, x)), fp32);
  };
  const auto four = [&](std::size_t n, float x) { return std::vector<Whole>(4, of(n, x)); };
  EXPECT_LT(beside(of(1, 1.0F / 448), four(1, (1 + 0x1p-7F) / 448)), 4);
  EXPECT_GT(beside(of(1, 1.0F / 448), four(1, 1.5F / 448)), 40);
  EXPECT_GT(beside(of(2, 1.0F / 448), four(2, (1 + 0x1p-7F) / 448)),
            1000);  // of two one would differ
  EXPECT_LT(beside(of(1, 17), four(1, 18)), 4);
  EXPECT_LT(beside(of(9, 0), four(9, 1)), 4);
  EXPECT_GT(beside(of(9, 0), four(9, 1.5F)), 1000);
}

}  // namespace
}  // namespace plumb::beside_test
