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
};

// `size(i, j)` of every element.
template <class Size>
Profile profile_of(std::size_t rows, std::size_t columns, bool tolerated, const Size& size) {
  constexpr std::size_t most = 64;
  Profile p{rows, columns, tolerated, {}, {}};
  p.along_rows.resize(std::min(rows, most));
  p.along_columns.resize(std::min(columns, most));
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      double here = size(i, j);
      if (std::isnan(here)) here = std::numeric_limits<double>::infinity();
      double& row = p.along_rows[i * p.along_rows.size() / rows];
      double& column = p.along_columns[j * p.along_columns.size() / columns];
      row = std::max(row, here);
      column = std::max(column, here);
    }
  }
  return p;
}

}  // namespace plumb::trace
