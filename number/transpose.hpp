// number/transpose.hpp: blocks of columns as rows of wide registers. Copies only: no number
// changes.
//
// TESTED   tests/number/product_test.cpp, tests/model/one_rank_test.cpp
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>

#include "number/lanes.hpp"

namespace plumb {

// Exchanges, of two rows that are `apart`, the blocks on either side of the diagonal.
template <std::size_t apart, std::size_t... i>
void exchange(Floats& upper, Floats& lower, std::index_sequence<i...>) {
  const Floats x = upper, y = lower;
  upper = __builtin_shufflevector(x, y, (i & apart ? lanes + i - apart : i)...);
  lower = __builtin_shufflevector(x, y, (i & apart ? lanes + i : i + apart)...);
}

template <std::size_t apart>
void exchange(Floats (&row)[lanes]) {
#pragma GCC unroll 16
  for (std::size_t i = 0; i < lanes; ++i) {
    if (!(i & apart)) {
      exchange<apart>(row[i], row[i + apart], std::make_index_sequence<lanes>());
    }
  }
}

// to(i, j) = from(j, i), of `lanes` rows and columns, in registers, by blocks of one, two, four
// and eight (Eklundh 1972).
inline void transpose(const float* from, std::size_t from_stride, float* to,
                      std::size_t to_stride) {
  Floats row[lanes];
  for (std::size_t i = 0; i < lanes; ++i) {
    std::memcpy(&row[i], from + i * from_stride, sizeof row[i]);
  }
  exchange<1>(row);
  exchange<2>(row);
  exchange<4>(row);
  exchange<8>(row);
  for (std::size_t i = 0; i < lanes; ++i) std::memcpy(to + i * to_stride, &row[i], sizeof row[i]);
}

}  // namespace plumb
