// Is a product that calls itself exact exact, and is the rest within its bound and slice-invariant?
#include "bounds/proof/certified.hpp"

#include <gtest/gtest.h>

#include "bounds/examples/draw.hpp"
#include "bounds/proof/exact.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::certified_test {
namespace {

struct Factors {
  Matrix<double> a, b;
};

Factors factors_of(Draw& draw, std::size_t m, std::size_t k, std::size_t n, const Format& format) {
  return {draw.matrix(m, k, format), draw.matrix(n, k, format)};
}

// Largest error over bound; elements that claim to be exact must be.
double worst_of(const Certified& c, const Factors& f) {
  double worst = 0;
  for (std::size_t i = 0; i < c.value.rows; i += 3) {
    for (std::size_t j = 0; j < c.value.cols; j += 5) {
      const double error =
          distance_from_dot(c.value(i, j), {f.a.row(i), f.a.cols}, {f.b.row(j), f.a.cols});
      EXPECT_LE(error, c.bound(i, j));
      if (c.bound(i, j) > 0) worst = std::max(worst, error / c.bound(i, j));
    }
  }
  return worst;
}

TEST(CertifiedProduct, ProvesShortNumbersExact) {
  for (const Format& format : {bf16, fp16, e4m3fn, e5m2}) {
    Draw draw("plain", 3);
    const Factors f = factors_of(draw, 70, 300, 90, format);
    const Certified c = certified_product(view(f.a), view(f.b, true));
    EXPECT_EQ(c.exact, 1) << format.name;
    EXPECT_EQ(c.bounds.size(), 0) << format.name;
    EXPECT_EQ(worst_of(c, f), 0);
  }
}

TEST(CertifiedProduct, BoundsWhatItCannotProve) {
  for (const char* kind : input_kinds) {
    for (const Format& format : {fp32, bf16}) {
      Draw draw(kind, 5);
      const Factors f = factors_of(draw, 70, draw.between(1, 300), 90, format);
      const Certified c = certified_product(view(f.a), view(f.b, true));
      EXPECT_LE(worst_of(c, f), 1) << kind;
      if (format == fp32 && kind == std::string("plain")) {
        EXPECT_LT(c.exact, 0.5);
      }
    }
  }
}

// Twice the bits: after FP64's own rounding is taken out, next to nothing is left.
TEST(CertifiedProduct, HasTwiceTheBitsWhereSumsCancel) {
  Draw draw("spread", 7);
  Factors f = factors_of(draw, 20, 200, 20, fp32);
  for (std::size_t i = 0; i < 20; ++i) {
    for (std::size_t k = 100; k < 200; ++k) f.a(i, k) = -f.a(i, k - 100);
    for (std::size_t k = 100; k < 200; ++k) f.b(i, k) = f.b(i, k - 100);
    f.a(i, 0) += f.a(i, 0) * 0x1p-20;
    f.a(i, 0) = static_cast<double>(static_cast<float>(f.a(i, 0)));
  }
  const Certified c = doubled_product(view(f.a), view(f.b, true));
  EXPECT_LE(worst_of(c, f), 1);
  for (std::size_t e = 0; e < c.value.size(); ++e) {
    EXPECT_LT(c.bounds.values[e], 1e-12 * std::fabs(c.value.values[e]) + 1e-9);
  }
}

// The claim of the header: n^2 2^-103 |a| |b|, and no more (n + 2 for n).
TEST(CertifiedProduct, BoundsASumThatVanishesAsClaimed) {
  constexpr std::size_t n = 64;
  Matrix<double> a(1, n), b(1, n, 1.0);
  for (std::size_t k = 0; k < n; ++k) a(0, k) = k % 2 == 0 ? 1 + 0x1p-20 : -(1 + 0x1p-20);
  const Certified c = doubled_product(view(a), view(b, true));
  EXPECT_EQ(c.value.values[0], 0);
  EXPECT_LE(c.bounds.values[0], (n + 2) * (n + 2) * 0x1p-103 * 64 * (1 + 0x1p-19));
  EXPECT_GT(c.bounds.values[0], 0);
}

TEST(CertifiedProduct, HasTheSameBitsInAnySlice) {
  Draw draw("spread", 9);
  const Factors f = factors_of(draw, 67, 50, 61, fp32);
  const Certified whole = doubled_product(view(f.a), view(f.b, true));
  const Certified slice = doubled_product(rows(view(f.a), 13, 40), columns(view(f.b, true), 7, 58));
  for (std::size_t i = 0; i < slice.value.rows; ++i) {
    for (std::size_t j = 0; j < slice.value.cols; ++j) {
      ASSERT_EQ(slice.value(i, j), whole.value(i + 13, j + 7));
      ASSERT_EQ(slice.bound(i, j), whole.bound(i + 13, j + 7));
    }
  }
}

TEST(CertifiedProduct, RefusesWhatItHasNoProofFor) {
  Matrix<double> a(2, 2, 1.0), wide(2, 2, 1 + 0x1p-40);
  EXPECT_THROW(certified_product(view(a), view(wide)), std::domain_error);
  wide.values[0] = std::nan("");
  EXPECT_THROW(certified_product(view(wide), view(a)), std::domain_error);
  EXPECT_THROW(certified_product(view(a), view(Matrix<double>(3, 2))), std::invalid_argument);
}

}  // namespace
}  // namespace plumb::certified_test
