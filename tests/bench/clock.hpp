// tests/bench/clock.hpp: CPU time of this thread or of the process, and medians, for ratios of
// variants taken in turn.
#pragma once

#include <algorithm>
#include <ctime>
#include <vector>
#include "tests/support/rooms.hpp"

namespace plumb {

inline double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
inline double cpu_seconds() { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }
inline double process_seconds() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

inline double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

}  // namespace plumb
