// kernels/reference/strips.hpp: copies of a product's operands, in the order in which gemm.cpp
// reads them. Copies only: no number changes.
#pragma once

#include <cstddef>

#include "bounds/number/matrix.hpp"
#include "bounds/number/product.hpp"
#include "kernels/reference/transpose.hpp"

namespace plumb {

inline constexpr std::size_t height = 6;   // rows whose sums stay in registers, and
inline constexpr std::size_t widest = 64;  // so many columns of each at once

// n as a number of whole registers.
constexpr std::size_t padded(std::size_t n) { return (n + lanes - 1) / lanes * lanes; }

// Columns [first, first + n) of B, padded(n) with zeros beyond, row after row.
void copy_strip(const View<float>& b, std::size_t first, std::size_t n, Tensor::Numbers& strip);

// Where A's columns lie in memory, its rows meet a new line at each k, and again for every strip:
// `height` rows of each k together, the next `height` after all k. Rows that fill no `height` are
// left out.
void copy_rows(const View<float>& a, Tensor::Numbers& copy);

}  // namespace plumb
