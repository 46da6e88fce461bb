// bounds/operations/softmax_row.hpp: the exponentials of a row and their sum, halves of it added.
#pragma once

#include <type_traits>
#include <vector>

#include "bounds/sees.hpp"
#include "bounds/sum.hpp"
#include "number/exponential.hpp"
#include "number/order.hpp"
#include "number/rows.hpp"

namespace plumb::bounds {

inline constexpr Order pairwise{Order::Kind::pairwise};

// Exponentials of a row and their sum. Each goes into the numerator and, with the opposite sign of
// effect, into the sum: counting its error twice as if independent only widens (1 - p <= 1).
template <class T>
struct Row {
  T largest, sum;
  std::vector<T> exponentials;

  Row(const T* x, std::size_t n, const SumsIn& in)
      : largest(largest_of(x, n)), exponentials(plumb::exponentials(x, n, largest)) {
    if constexpr (std::is_same_v<T, double>) {
      sum = sum_of(exponentials.data(), n);
    } else if (in.way != SumsIn::Way::promised) {
      Sum<T> as_asked(in);
      for (const T& e : exponentials) as_asked.add(e);
      sum = as_asked.total();
    } else {
      const auto leaf = [&](const T&, std::size_t j) { return exponentials[j]; };
      const auto add = [](const T& a, const T& b) { return a + b; };
      sum = total<T>(pairwise, 0, n, leaf, add);
    }
  }
};

}  // namespace plumb::bounds
