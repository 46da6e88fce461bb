// number/instructions.hpp: loops for the processor that runs them, where the build is for any.
//
// A build for any machine (PLUMB_NATIVE=OFF) has no instruction for a fused multiply-add on x86-64,
// only a function that computes it, a hundred times more slowly. There the innermost loops of
// products are compiled three times, and the processor is asked which to take. The bits are the
// same.
//
// TESTED   tests/portable/products.cpp
#pragma once

#if defined(__x86_64__) && !defined(__FMA__)
#define PLUMB_CHOOSES
#endif
// Becomes part of its caller, and so takes the caller's instructions.
#define PLUMB_WITHIN __attribute__((always_inline))

namespace plumb {

#ifdef PLUMB_CHOOSES

template <class Work>
__attribute__((target("avx2,fma"))) void with_avx2(const Work& work) {
  work();
}
#ifdef __clang__
#define PLUMB_WIDE "avx512f,avx512dq,avx512vl,fma"
#else  // would take half of each register
#define PLUMB_WIDE "avx512f,avx512dq,avx512vl,fma,prefer-vector-width=512"
#endif
template <class Work>
__attribute__((target(PLUMB_WIDE))) void with_avx512(const Work& work) {
  work();
}

enum class Instructions { any, avx2, avx512 };
inline Instructions instructions() {
  static const Instructions known = [] {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("fma")) return Instructions::any;
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
    if (wide) return Instructions::avx512;
    return __builtin_cpu_supports("avx2") ? Instructions::avx2 : Instructions::any;
  }();
  return known;
}

// Runs loops: a lambda that is marked PLUMB_WITHIN, as all that it calls.
template <class Work>
void for_this_processor(const Work& work) {
  switch (instructions()) {
    case Instructions::avx512:
      return with_avx512(work);
    case Instructions::avx2:
      return with_avx2(work);
    case Instructions::any:
      return work();
  }
}

#else
template <class Work>
PLUMB_WITHIN inline void for_this_processor(const Work& work) {
  work();
}
#endif

}  // namespace plumb
