#include "trace/where.hpp"

#include <algorithm>
#include <cmath>

namespace plumb::trace {

Profile where_they_differ(const Tensor& a, const Tensor& b) {
  double most = 0;
  for (const float v : b.values) most = std::max(most, std::fabs(static_cast<double>(v)));
  return profile_of(a.rows, a.cols, false, [&](std::size_t i, std::size_t j) {
    const double off = std::fabs(static_cast<double>(a(i, j)) - b(i, j));
    return off == 0 ? 0 : off / most;
  });
}

}  // namespace plumb::trace
