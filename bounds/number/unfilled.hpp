// bounds/number/unfilled.hpp: memory for numbers that are about to be written, which need not be
// zeroed first: what std::vector<T, Unfilled<T>>(n) holds is anything, in checked builds no number,
// so that a read before the write shows.
#pragma once

#include <concepts>
#include <limits>
#include <memory>
#include <utility>

namespace plumb {

template <class T>
struct Unfilled : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = Unfilled<U>;
  };

  template <class U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;
#ifndef NDEBUG
    if constexpr (std::floating_point<U>) *at = std::numeric_limits<U>::quiet_NaN();
#endif
  }
  template <class U, class... From>
  void construct(U* at, From&&... from) {
    ::new (static_cast<void*>(at)) U(std::forward<From>(from)...);
  }
};

}  // namespace plumb
