// trace/difference.hpp: the difference of two runs of one tensor, seven numbers in one pass at memory
// speed.
//
//   squares      sum (a - b)^2
//   energy       sum b^2
//   over         pairs with |a - b| > absolute + relative |b|
//   largest      max |a - b|
//   ulps         max distance in FP32 numbers
//   non_finite   pairs with a NaN or an infinity
//   own          sum a^2
//
// Pairs that are not finite count only as such: they enter no other number.
//
// ERRORS   squares, energy and own: at most 1.2e-6 relative. (Sixteen products of FP32 are added per
//          lane before FP64 takes over: 15 u, and 3 u of difference and square. Blocks whose sums
//          leave [1e-20, 1e30] are repeated in FP64.) The others are exact, `over` up to the
//          rounding of its own right-hand side in FP32.
// COSTS    one read of both; tests/bench/compare.cpp measures it against a bare read.
// TESTED   tests/trace/difference_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trace/sees.hpp"
#include "trace/whole.hpp"

namespace plumb::trace {

// The tolerance that PyTorch's assert_close has for bfloat16 [PyTorch-close].
struct Closeness {
  float relative = 1.6e-2F;
  float absolute = 1e-5F;
};

struct Difference {
  double squares = 0, energy = 0, own = 0;
  float largest = 0;
  std::uint32_t ulps = 0;
  std::size_t over = 0, non_finite = 0;

  // sqrt(squares / energy); 0 if nothing differs, infinite if b is zero and a is not, or if some
  // pair is not finite.
  double relative() const;
  // <a, b> / (|a| |b|); 1 if nothing differs. NaN if some pair is not finite, or one is zero.
  double cosine() const;
};

// Both have one length.
Difference difference(std::span<const float> a, std::span<const float> b,
                      const Closeness& close = {});
// The same, but for `over` and `ulps`, of two tensors of one shape, where they lie.
Difference difference(const Whole& a, const Whole& b);
// How many numbers of tensors of that width one call of the next should add: many, and whole rows if
// these are whole blocks of FP32 sums, which begin anew in each call.
std::size_t compared_at_once(std::size_t cols);
void add_difference(Reading& a, Reading& b, std::size_t first, std::size_t n, Difference& sum);
// The same, where they lie.
void add_difference(std::span<const Lying> a, std::span<const Lying> b, Difference& sum);

}  // namespace plumb::trace
