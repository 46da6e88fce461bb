// Do twins multiply in the order that a probe found, and only where it is known?
#include "probe/machine_products.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "bounds/machine_card.hpp"
#include "number/rounding.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::machine_products_test {
namespace {

Machine card(const std::string& order, const std::string& fma = "as_written",
             const std::string& rounding = "nearest_even") {
  std::string facts;
  for (const auto& [name, value] : {std::pair<std::string, std::string>{"accumulator", "fp32"},
                                    {"rounding", rounding},
                                    {"fma", fma},
                                    {"order_gemm", order}}) {
    facts += (facts.empty() ? "" : ", ") + std::string(R"({"name": ")") + name +
             R"(", "value": ")" + value + R"(", "provenance": "measured", "source": "here"})";
  }
  return machine_from_card("mine.json", R"({"title": "mine", "facts": [)" + facts + "]}");
}

Tensor numbers(std::size_t rows, std::size_t cols, bool of_bf16 = true) {
  std::mt19937 random(static_cast<unsigned>(rows + 100 * cols));
  std::normal_distribution<float> normal;
  Tensor x(rows, cols);
  for (float& v : x.values) {
    v = normal(random);
    if (of_bf16) v = static_cast<float>(round_to(v, bf16));
  }
  return x;
}

TEST(ProductsOfACard, AreInTheOrderThatAProbeFound) {
  const std::size_t n = 25;  // the last has no neighbour
  const Tensor a = numbers(5, n), b = numbers(n, 19);
  const auto swapped = products_on(card("sequential swapped up to 25"));
  const auto blocked = products_on(card("blocked 8"));
  ASSERT_TRUE(swapped && blocked);
  const Tensor in_pairs = (*swapped)(view(a), view(b)).value(),
               in_blocks = (*blocked)(view(a), view(b)).value();
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < b.cols; ++j) {
      float pairs = 0, blocks = 0, block = 0;
      for (std::size_t k = 0; k < n; ++k) {
        const std::size_t other = (k ^ 1) < n ? k ^ 1 : k;
        pairs = std::fma(a(i, other), b(other, j), pairs);
        block = std::fma(a(i, k), b(k, j), block);
        if (k % 8 != 7 && k + 1 != n) continue;
        blocks += block;
        block = 0;
      }
      EXPECT_EQ(in_pairs(i, j), pairs) << i << " " << j;
      EXPECT_EQ(in_blocks(i, j), blocks) << i << " " << j;
    }
  }
}

TEST(ProductsOfACard, AreChainsWhereNoOtherOrderIsKnown) {
  EXPECT_FALSE(products_on(card("any")));
  EXPECT_FALSE(products_on(card("sequential up to 64")));  // which chains are
  EXPECT_FALSE(products_on(card("blocked 8", "any")));
  EXPECT_FALSE(products_on(card("blocked 8", "as_written", "toward_zero")));
  EXPECT_FALSE(products_on(*find_machine("ieee-pairwise")));  // no probe found that
  const auto known = products_on(card("sequential swapped up to 24"));
  ASSERT_TRUE(known);
  const auto multiplies = [&](const Tensor& a, const Tensor& b) {
    return (*known)(view(a), view(b)).has_value();
  };
  EXPECT_TRUE(multiplies(numbers(2, 24), numbers(24, 3)));
  EXPECT_FALSE(multiplies(numbers(2, 25), numbers(25, 3)));         // beyond what is known
  EXPECT_FALSE(multiplies(numbers(2, 24), numbers(24, 3, false)));  // of other numbers
}

}  // namespace
}  // namespace plumb::machine_products_test
