// number/unfilled.hpp: memory for numbers that are about to be written and need not be
// zeroed first. std::vector<T, Unfilled<T>>(n) holds anything; in checked builds it holds NaN, so
// that a read before the write shows. It begins on a line of the cache.
//
// TESTED   tests/number/matrix_test.cpp
#pragma once

#include <concepts>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <utility>

namespace plumb {

template <class T>
struct Unfilled : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = Unfilled<U>;
  };

  // A wide register is then never loaded across two lines.
  static constexpr std::align_val_t line{64};
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), line)); }
  void deallocate(T* at, std::size_t) { ::operator delete(at, line); }

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
