// experiments/distance.hpp: how far one run of a tensor is from another, in FP64.
#pragma once

#include <cmath>

#include "bounds/number/matrix.hpp"

namespace plumb {

struct Distance {
  double norm = 0;           // Frobenius, of the difference
  std::size_t elements = 0;  // that differ
};

// Both of one shape.
template <class A, class B>
Distance distance(const Matrix<A>& a, const Matrix<B>& b) {
  Distance found;
  double squares = 0;
  for (std::size_t e = 0; e < a.size(); ++e) {
    const double d = static_cast<double>(a.values[e]) - static_cast<double>(b.values[e]);
    squares += d * d;
    found.elements += d != 0 ? 1 : 0;
  }
  found.norm = std::sqrt(squares);
  return found;
}

}  // namespace plumb
