// bounds/examples/sampled_product.hpp: some rows and columns of a product that is too large to bound
// whole. Their numbers are those that shaped_example() would draw.
//
// Rows are taken in whole runs, since a run may share a block's scale: drawn are all rows of a run,
// judged some of them. Runs are spread over the axis, one at random in each of equal shares; the
// same shape has the same sample each time.
//
// COSTS    memory and time by the sample, not by the shape; largest_drawn() a nanosecond an element
// TESTED   tests/bounds/sampled_product_test.cpp
#pragma once

#include <vector>

#include "bounds/sees.hpp"
#include "number/format.hpp"
#include "number/matrix.hpp"

namespace plumb::bounds {

// Of one axis of the result.
struct Sampled {
  std::vector<std::size_t> drawn;   // rows of op(A), or columns of op(B)
  std::vector<std::size_t> judged;  // numbers of those in `drawn`
};

struct ProductSample {
  std::size_t inner, of_rows, of_cols;  // the shape
  Sampled rows, cols;

  std::size_t elements() const { return rows.judged.size() * cols.judged.size(); }
  double share() const;  // of all elements
  bool whole() const { return share() == 1; }
};

// Judges at most `products` products or so, or all where there are no more. Runs are of `row_run`
// rows and `col_run` columns.
// Throws Failure where a sum has more than 2^22 terms, or an axis of the result more than 2^31.
ProductSample sample_of(const std::vector<std::size_t>& shape, std::size_t row_run,
                        std::size_t col_run, std::size_t products);

Matrix<double> drawn_rows(const ProductSample& sample, const Format& format);     // (drawn, K)
Matrix<double> drawn_columns(const ProductSample& sample, const Format& format);  // (drawn, K)

// The largest magnitude among the first `count` numbers of an input.
// Throws Failure where these are more than 2^33.
double largest_drawn(std::uint64_t input, std::size_t count, const Format& format);

}  // namespace plumb::bounds
