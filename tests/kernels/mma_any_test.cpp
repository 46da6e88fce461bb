// Is a matrix unit's sum within its bound however a kernel arranges the steps: split among sums, in
// instructions of half as many terms, in any order of K, joined by FP32?
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "bounds/examples/draw.hpp"
#include "bounds/machine_card.hpp"
#include "bounds/mma.hpp"
#include "bounds/on_machine.hpp"
#include "kernels/mma/multiply.hpp"
#include "kernels/mma/product.hpp"
#include "number/rounding.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::mma_any_test {
namespace {

Mma chain(const Format& input) { return find_machine("h100")->mma(input).value(); }
Mma in_any_arrangement(const Format& input) {
  return find_machine("h100-libraries")->mma(input).value();
}

// A kernel that nobody describes: which K each of its sums takes, and in which instructions.
class Kernel {
 public:
  Kernel(const Mma& unit, unsigned seed) : unit_(unit), random_(seed) {}

  // a (K numbers of row i), b (K numbers of column j); drawn anew each time.
  float dot(const std::vector<float>& a, const std::vector<float>& b) {
    std::vector<std::size_t> at(a.size());
    std::iota(at.begin(), at.end(), 0);
    if (coin()) std::ranges::shuffle(at, random_);
    std::vector<float> sums;
    for (std::size_t first = 0; first < at.size();) {
      const std::size_t last = end_of_sum(first, at.size());
      sums.push_back(of_sum(a, b,
                            {at.begin() + static_cast<std::ptrdiff_t>(first),
                             at.begin() + static_cast<std::ptrdiff_t>(last)}));
      first = last;
    }
    return joined(std::move(sums));
  }

 private:
  bool coin() { return (random_() & 1U) != 0; }
  std::size_t terms() const { return static_cast<std::size_t>(unit_.terms); }
  // A sum of `terms` products at least; what is left over is the last sum's.
  std::size_t end_of_sum(std::size_t first, std::size_t all) {
    const std::size_t most = (all - first) / terms();
    const std::size_t blocks = std::uniform_int_distribution<std::size_t>(
        1, std::max<std::size_t>(1, coin() ? most : std::min<std::size_t>(most, 2)))(random_);
    const std::size_t last = first + blocks * terms();
    return last + terms() > all ? all : last;
  }
  float of_sum(const std::vector<float>& a, const std::vector<float>& b,
               const std::vector<std::size_t>& at) {
    Mma used = unit_;
    if (coin()) used.terms /= 2;
    Tensor left(1, at.size()), right(at.size(), 1);
    for (std::size_t k = 0; k < at.size(); ++k) {
      left.values[k] = a[at[k]];
      right.values[k] = b[at[k]];
    }
    return mma_product(view(left), view(right), used).values[0];
  }
  float joined(std::vector<float> sums) {
    const Rounding how = coin() ? Rounding::nearest_even : Rounding::toward_zero;
    while (sums.size() > 1) {
      std::swap(sums[random_() % sums.size()], sums.back());
      const double last = sums.back();
      sums.pop_back();
      float& into = sums[random_() % sums.size()];
      into = static_cast<float>(round_to(static_cast<double>(into) + last, fp32, {.how = how}));
    }
    return sums[0];
  }

  Mma unit_;
  std::mt19937 random_;
};

std::vector<float> line(const Matrix<double>& x, std::size_t row) {
  return {x.row(row), x.row(row) + x.cols};
}

// Products that are whole numbers: a chain of steps loses none of them.
Matrix<double> whole(Draw& draw, std::size_t rows, std::size_t cols, double largest) {
  Matrix<double> x(rows, cols);
  for (double& each : x.values) each = std::round((2 * draw.uniform() - 1) * largest);
  return x;
}

bool finite(const Matrix<double>& x) {
  return std::ranges::all_of(x.values, [](double v) { return std::isfinite(v); });
}

struct Seen {
  double worst = 0;  // error over bound
  std::size_t beyond_chain = 0;
};

void hold(const Matrix<double>& a, const Matrix<double>& b, const Format& input, unsigned seed,
          Seen& seen) {
  const SumErrors any = mma_errors(view(a), view(b, true), in_any_arrangement(input), Asked::worst);
  const SumErrors of_chain = mma_errors(view(a), view(b, true), chain(input), Asked::worst);
  Kernel kernel(chain(input), seed);
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < b.rows; ++j) {
      const double found = kernel.dot(line(a, i), line(b, j));
      const double error = std::fabs(found - any.sum(i, j)), bound = any.worst(i, j);
      if (std::isinf(bound)) continue;
      ASSERT_LE(error, bound) << i << " " << j;
      if (bound > 0) seen.worst = std::max(seen.worst, error / bound);
      seen.beyond_chain += error > of_chain.worst(i, j) ? 1 : 0;
    }
  }
}

TEST(MmaAny, IsNeverExceeded) {
  Seen seen;
  for (const Format& input : {fp16, bf16, tf32, e4m3fn}) {
    for (const char* kind : bounds::input_kinds) {
      for (int draw = 0; draw < 2 * effort(4); ++draw) {
        const auto seed = static_cast<unsigned>(draw) + 1;
        bounds::Draw random(kind, seed);
        const std::size_t n = random.between(1, 400);
        const Matrix<double> a = random.matrix(6, n, input), b = random.matrix(6, n, input);
        if (!finite(a) || !finite(b)) continue;  // huge numbers of a short format
        hold(a, b, input, seed, seen);
      }
    }
    for (unsigned seed = 1; seed <= static_cast<unsigned>(effort(8)); ++seed) {
      bounds::Draw random("plain", seed);
      const Matrix<double> a = whole(random, 4, 1024, 200), b(4, 1024, 3);
      if (input.precision >= 8) hold(a, b, input, seed, seen);
    }
  }
  EXPECT_GT(seen.worst, 0.05);
  EXPECT_GT(seen.beyond_chain, 0U);  // the bound of a chain is none of theirs
}

TEST(MmaAny, AddsUpWhatEachStepMayLose) {
  // A = 1 + 31 2^-30: 31 products and the sums of 6 steps on a grid of 2^-25, 6 results, 1 addition.
  Matrix<double> a(1, 32, 0x1p-15), b(32, 1, 0x1p-15);
  a(0, 0) = b(0, 0) = 1;
  const double worst = mma_errors(view(a), view(b), in_any_arrangement(bf16)).worst.values[0];
  EXPECT_NEAR(worst, 37 * 0x1p-25 + 6 * 0x1p-23 + 0x1p-23, 0x1p-58);
}

TEST(MmaAny, ASumThatFitsLosesNothing) {
  Matrix<double> a(1, 4096, 3), b(4096, 1, 5);
  EXPECT_EQ(mma_errors(view(a), view(b), in_any_arrangement(bf16)).worst.values[0], 0);
  a(0, 0) = 0x1p-9;  // 61,440 has 16 bits, and this product ten below
  EXPECT_GT(mma_errors(view(a), view(b), in_any_arrangement(bf16)).worst.values[0], 0);
}

TEST(MmaAny, IsInfiniteWhereASumMayLeaveTheRange) {
  const Matrix<double> a(1, 64, 0x1p63), b(64, 1, 0x1p62);
  EXPECT_TRUE(std::isinf(mma_errors(view(a), view(b), in_any_arrangement(bf16)).worst.values[0]));
  // Thousands of FP8 steps may lose more than all that they add up.
  const Matrix<double> c(1, 65536, 0x1.8p-3), d(65536, 1, 0x1.ep0);
  const Mma unit = in_any_arrangement(e4m3fn);
  EXPECT_TRUE(std::isinf(mma_errors(view(c), view(d), unit).worst.values[0]));
}

TEST(MmaAny, IsRefusedWhereItIsNotDerivedOrNothingComputesIt) {
  Mma unit = find_machine("mi300")->mma(bf16).value();
  unit.any_steps = true;
  EXPECT_THROW(unit.check(), std::invalid_argument);
  const Tensor x(1, 1, 1.0F);
  EXPECT_THROW((void)mma_product(view(x), view(x), in_any_arrangement(bf16)),
               std::invalid_argument);
  EXPECT_FALSE(in_any_arrangement(bf16).foretold());
  // Sums in FP16 are not described by a card that says so.
  Machine card = *find_machine("h100");
  card.facts.push_back({"steps", "any", bounds::Provenance::assumed, "a test"});
  EXPECT_FALSE(card.mma(fp16, fp16));
  EXPECT_TRUE(card.mma(fp16)->any_steps);
}

TEST(ProductOfBf16, IsTheUnitsOfFiniteNumbersOfBf16Alone) {
  const Tensor ones(2, 3, 1.0F), fine(3, 2, 1 + 0x1p-20F);
  Tensor other(3, 2, 1.0F);
  EXPECT_EQ(kernels::product_of_bf16(view(ones), view(other), chain(bf16)), Tensor(2, 2, 3.0F));
  EXPECT_FALSE(kernels::product_of_bf16(view(ones), view(fine), chain(bf16)));
  for (const float odd :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    other(1, 1) = odd;
    EXPECT_FALSE(kernels::product_of_bf16(view(ones), view(other), chain(bf16)));
  }
}

}  // namespace
}  // namespace plumb::mma_any_test
