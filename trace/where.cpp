#include "trace/where.hpp"

#include <algorithm>
#include <cmath>

namespace plumb::trace {

Profile where_they_differ(const Whole& a, const Whole& b) {
  double most = 0;
  Reading of_b(b);
  by_stretches(b.size(), [&](std::size_t first, std::size_t n) {
    const float* x = of_b(first, n);
    for (std::size_t e = 0; e < n; ++e) most = std::max(most, std::fabs(static_cast<double>(x[e])));
    return true;
  });
  Profile p = profile_for(a.rows, a.cols, false);
  by_rows(a, b, [&](std::size_t i, const float* x, const float* y) {
    for (std::size_t j = 0; j < a.cols; ++j) {
      const double off = std::fabs(static_cast<double>(x[j]) - y[j]);
      p.note(i, j, off == 0 ? 0 : off / most);
    }
  });
  return p;
}

}  // namespace plumb::trace
