#include "trace/where.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plumb::trace {

namespace {

// The first column j of a band: j * bands / columns, as Profile::note has it, is its number.
std::size_t first_of(std::size_t band, std::size_t bands, std::size_t columns) {
  return (band * columns + bands - 1) / bands;
}

// The largest difference; NaN if one is.
double furthest(const float* x, const float* y, std::size_t begin, std::size_t end) {
  double most = 0;
  bool a_number = true;
  for (std::size_t j = begin; j < end; ++j) {
    const double off = std::fabs(static_cast<double>(x[j]) - y[j]);
    most = off > most ? off : most;
    a_number = a_number && off == off;
  }
  return a_number ? most : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

Profile where_they_differ(const Whole& a, const Whole& b) {
  double most = 0;
  Reading of_b(b);
  by_stretches(b.size(), [&](std::size_t first, std::size_t n) {
    const float* x = of_b(first, n);
    for (std::size_t e = 0; e < n; ++e) most = std::max(most, std::fabs(static_cast<double>(x[e])));
    return true;
  });
  Profile p = profile_for(a.rows, a.cols, false);
  const std::size_t bands = p.along_columns.size();
  by_rows(a, b, [&](std::size_t i, const float* x, const float* y) {
    for (std::size_t band = 0; band < bands; ++band) {
      const std::size_t begin = first_of(band, bands, a.cols);
      const double off = furthest(x, y, begin, first_of(band + 1, bands, a.cols));
      p.note(i, begin, off == 0 ? 0 : off / most);
    }
  });
  return p;
}

}  // namespace plumb::trace
