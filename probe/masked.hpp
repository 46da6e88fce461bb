// probe/masked.hpp: the tree of a sum from its results alone.
//
//   Product i is +L and product j is -L, so large that whatever is added to either of them vanishes;
//   all others are 1 (in a unit of their own). The result is the number of products that are added
//   after i and j met (FPRev [Xie25]). Where roundings point away from or toward zero, what is added
//   to -L does not vanish; there one product at a time is 1 and all others are 0, and the result is 1
//   just where that product comes later (sums of at most 256 products: n^3 steps).
//
// ASSUMES  that the order depends on shapes alone, not on values.
// COSTS    n to n^2 / 2 sums of n products; one product at a time, n times as many. A tree as deep as
//          halves of halves takes log2 n calls of the subject, a chain one.
// TESTED   tests/probe/masked_test.cpp
// SOURCES  bounds/SOURCES.md [Xie25]
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "probe/sees.hpp"
#include "probe/subject.hpp"
#include "probe/tree.hpp"

namespace plumb::probe {

// Which elements of a product are read: its diagonal, or the first one alone, because a kernel may
// take the elements of one product in several orders.
enum class Read { diagonal, first };
// Sums of products, one for each row of a and b; (R, K) each.
std::vector<float> sums_of(const Subject& subject, const Tensor& a, const Tensor& b,
                           Read read = Read::diagonal);

// The largest power of two that a probe uses as an operand, and the smallest.
struct Range {
  int largest, smallest;
};
Range operands_of(const Format& input);

// Puts 2^exponent as a product of two operands at (row, k), with a sign.
void put(Tensor& a, Tensor& b, std::size_t row, std::size_t k, int exponent, bool negative,
         const Format& input);

// The tree of a sum of n products, of the diagonal if its elements agree, else of the first element;
// nothing where results do not tell.
Tree tree_of(const Subject& subject, std::size_t n);

}  // namespace plumb::probe
