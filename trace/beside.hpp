// trace/beside.hpp: do twins that a producer made lie around their reference, or beside it? Twins of
// another run agree with each other, and a candidate that is wrong as they are would pass.
//
//   m    mean of the K twins of a tensor t_k,   s^2 = sum_k |t_k - m|^2 / (K - 1),
//        at least the variance of one rounding in each element that m moves: of whole numbers to whole
//        ones; of a single number in which all twins agree to BF16, of which it may be made
//   off  |m - r| / (s sqrt(1 + 1/K))            of one tensor
//   p    P(|Student of K - 1 degrees| >= off)
//   all  H_N min_j (N / j) p_(j)                of N tensors, p_(j) in order, H_N = 1 + 1/2 + .. + 1/N
//
// ASSUMES  the reference is one draw like its twins (then the second moment of `off` is 1), or lies in
//          their middle (then `off` is smaller). Numbers of a tensor may round alike or not: fewer
//          degrees than one number has there are none. Tensors may depend on each other in any way.
// COSTS    reads the reference and each twin once
// TESTED   tests/trace/beside_test.cpp
// SOURCES  twins.md G6, [Hom83]
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "trace/spreads.hpp"
#include "trace/whole.hpp"

namespace plumb::trace {

// `off` of two twins or more, all of the reference's shape; 0 where their mean is the reference.
double beside(const Whole& reference, const std::vector<Whole>& twins);

struct BesideReference {
  std::string farthest;  // id of the largest `off`
  double off = 0;
  double chance = 1;  // of as much, over all tensors
};
// Of tensors that twins move, but for these; nothing where there are none, or fewer than three twins.
std::optional<BesideReference> beside(std::span<const Measured> all,
                                      const std::set<std::string>& without = {});

}  // namespace plumb::trace
