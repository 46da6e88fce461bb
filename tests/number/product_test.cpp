// The product's bits depend on row, column and K only; and it is a product.
#include "number/product.hpp"

#include <gtest/gtest.h>

#include "bounds/examples/draw.hpp"
#include "bounds/proof/exact.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::product_test {
namespace {

template <class T>
Matrix<T> transposed(const Matrix<T>& m) {
  Matrix<T> t(m.cols, m.rows);
  for (std::size_t i = 0; i < m.rows; ++i) {
    for (std::size_t j = 0; j < m.cols; ++j) t(j, i) = m(i, j);
  }
  return t;
}

template <class T>
class Product : public testing::Test {};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(Product, Elements);

TYPED_TEST(Product, IsAChainOfFusedMultiplyAddsHoweverItIsSlicedOrStored) {
  using T = TypeParam;
  for (int seed = 1; seed <= effort(60); ++seed) {
    Draw draw(input_kinds[static_cast<std::size_t>(seed) % input_kinds.size()],
              static_cast<unsigned>(seed));
    const std::size_t m = draw.between(1, 30);
    const std::size_t k = draw.between(1, 80);
    const std::size_t n = draw.between(1, 150);
    const auto a = converted<T>(draw.matrix(m, k));
    const auto b = converted<T>(draw.matrix(k, n));
    const Matrix<T> c = product(view(a), view(b));
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        T chain = 0;
        for (std::size_t e = 0; e < k; ++e) chain = std::fma(a(i, e), b(e, j), chain);
        ASSERT_EQ(c(i, j), chain) << seed;
      }
    }
    const auto at = transposed(a);
    const auto bt = transposed(b);
    EXPECT_EQ(product(view(at, true), view(bt, true)), c);
    EXPECT_EQ(product(view(a), view(bt, true)), c);
    // Two slices of the rows, of the columns, and of K one after the other.
    const std::size_t row = draw.between(0, m);
    const std::size_t col = draw.between(0, n);
    const std::size_t mid = draw.between(0, k);
    Matrix<T> by_rows(m, n);
    multiply(rows(view(a), 0, row), view(b), by_rows.values.data(), n);
    multiply(rows(view(a), row, m), view(b), by_rows.values.data() + row * n, n);
    EXPECT_EQ(by_rows, c);
    Matrix<T> by_columns(m, n);
    multiply(view(a), columns(view(b), 0, col), by_columns.values.data(), n);
    multiply(view(at, true), columns(view(bt, true), col, n), by_columns.values.data() + col, n);
    EXPECT_EQ(by_columns, c);
    Matrix<T> by_k(m, n);
    multiply(columns(view(a), 0, mid), rows(view(b), 0, mid), by_k.values.data(), n);
    multiply(columns(view(a), mid, k), rows(view(b), mid, k), by_k.values.data(), n, true);
    EXPECT_EQ(by_k, c);
  }
}

TYPED_TEST(Product, IsNearTheTruth) {
  using T = TypeParam;
  const double u = std::numeric_limits<T>::epsilon() / 2;
  for (const char* kind : {"plain", "cancelling", "spread", "positive"}) {
    Draw draw(kind, 4);
    const Matrix<double> a = draw.matrix(1, 300);
    const Matrix<double> b = draw.matrix(300, 1);
    const Matrix<T> c = product(view(converted<T>(a)), view(converted<T>(b)));
    double size = 0;
    for (std::size_t e = 0; e < 300; ++e) size += std::fabs(a.values[e] * b.values[e]);
    const double off = distance_from_dot(static_cast<double>(c.values[0]), a.values, b.values);
    EXPECT_LE(off, 301 * u * size) << kind;
  }
}

TEST(Product, OfSizesIsThatOfTheNearestFloats) {
  Draw draw("cancelling", 8);
  const Matrix<double> a = draw.matrix(13, 40), b = draw.matrix(40, 70);
  Tensor sizes_a = converted<float>(a), sizes_b = converted<float>(b);
  for (Tensor* sizes : {&sizes_a, &sizes_b}) {
    for (float& x : sizes->values) x = std::fabs(x);
  }
  const Tensor expected = product(view(sizes_a), view(sizes_b));
  EXPECT_EQ(product_of_sizes(view(a), view(b)), expected);
  const Matrix<double> at = transposed(a), bt = transposed(b);
  EXPECT_EQ(product_of_sizes(view(at, true), view(bt, true)), expected);
  EXPECT_THROW((void)product_of_sizes(view(a), view(a)), std::invalid_argument);
}

TEST(Product, RefusesWhatDoesNotFit) {
  const Matrix<double> a(2, 3);
  EXPECT_THROW((void)product(view(a), view(a)), std::invalid_argument);
}

}  // namespace
}  // namespace plumb::product_test
