// trace/profile.hpp: where in a tensor it is wrong: the largest of some size in each of at most 64
// bands of rows, and of columns.
//
// COSTS    one pass over the tensor
// TESTED   tests/trace/profile_test.cpp
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "trace/sees.hpp"

namespace plumb::trace {

struct Profile {
  std::size_t rows = 0, columns = 0;  // of the tensor; 0: nothing is known
  bool tolerated = false;             // error over tolerance, not over the tensor's size
  std::vector<double> along_rows, along_columns;  // infinite: not one bit may differ, and one does

  // Notes the size of one element.
  void note(std::size_t i, std::size_t j, double here) {
    if (std::isnan(here)) here = std::numeric_limits<double>::infinity();
    double& row = along_rows[i * along_rows.size() / rows];
    double& column = along_columns[j * along_columns.size() / columns];
    row = std::max(row, here);
    column = std::max(column, here);
  }
};

// One in which nothing is noted yet.
inline Profile profile_for(std::size_t rows, std::size_t columns, bool tolerated) {
  constexpr std::size_t most = 64;
  Profile p{rows, columns, tolerated, {}, {}};
  p.along_rows.resize(std::min(rows, most));
  p.along_columns.resize(std::min(columns, most));
  return p;
}

// `size(i, j)` of every element.
template <class Size>
Profile profile_of(std::size_t rows, std::size_t columns, bool tolerated, const Size& size) {
  Profile p = profile_for(rows, columns, tolerated);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) p.note(i, j, size(i, j));
  }
  return p;
}

}  // namespace plumb::trace
