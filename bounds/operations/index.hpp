// bounds/operations/index.hpp: numbers of a tensor that name a row of another one.
//
// TESTED   tests/bounds/hostile_calls_test.cpp
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <string_view>
#include <type_traits>

#include "bounds/sees.hpp"

namespace plumb::bounds {

// Returns x as an index. Throws std::invalid_argument, naming `what` it is, unless it is a whole
// number below n. (Bounds and truths are made of calls that have been evaluated before.)
template <class T>
std::size_t index_of(const T& x, std::size_t n, std::string_view what) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!(x >= 0 && x < static_cast<T>(n) && x == std::trunc(x))) {
      throw std::invalid_argument(
          fmt::format("{} is {}, and must be a whole number below {}", what, x, n));
    }
  }
  return static_cast<std::size_t>(x);
}

}  // namespace plumb::bounds
