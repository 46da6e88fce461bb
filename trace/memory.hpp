// trace/memory.hpp: keeps freed memory with the process. Runs make and free the same tensors step
// after step; the C library hands large ones back to the system each time, and gets them anew page
// by page: a fifth of a step.
#pragma once

#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>

#include <climits>

#include "trace/sees.hpp"
#endif

namespace plumb::trace {

// Called once, by a program's main. The process then holds its peak to the end. Does nothing
// without glibc.
inline void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 25);  // the most that it takes
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
}

}  // namespace plumb::trace
