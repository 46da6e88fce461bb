// trace/memory.hpp: runs make and free the same tensors step after step. The C library hands large
// ones back to the system each time, and gets them anew page by page: a fifth of a step.
#pragma once

#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>

#include <climits>
#endif

namespace plumb {

// Called once, by a program's main: freed memory stays with the process, which so holds its peak to
// the end. Elsewhere than with glibc nothing happens.
inline void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 25);  // the most that it takes
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
}

}  // namespace plumb
