// trace/placement.hpp: where one rank's piece of a tensor sits in the whole.
//
// A list of (block of the whole, block of the shard) pairs: contiguous slices, zigzag halves and
// interleaved columns are all such lists. Shards that cover the same block are replicas, unless
// they are declared parts of a sum.
//
// TESTED   tests/trace/merge_test.cpp
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trace/sees.hpp"

namespace plumb::trace {

struct Block {
  std::size_t row = 0, col = 0, rows = 0, cols = 0;
  bool operator==(const Block&) const = default;
};

struct Piece {
  Block global;
  Block local;  // same size as global
  bool operator==(const Piece&) const = default;
};

struct Placement {
  std::size_t rows = 0, cols = 0;  // of the whole
  std::vector<Piece> pieces;
  int part = 0;   // which summand, of
  int parts = 1;  // how many: more than one means a partial sum
  bool operator==(const Placement&) const = default;
};

// "ROWSxCOLUMNS".
inline std::string size_of(std::size_t rows, std::size_t cols) {
  return std::to_string(rows) + "x" + std::to_string(cols);
}

inline Placement whole(std::size_t rows, std::size_t cols) {
  const Block all{0, 0, rows, cols};
  return {rows, cols, {{all, all}}};
}
// Rows [first, last) of a (rows, cols) tensor.
inline Placement row_slice(std::size_t rows, std::size_t cols, std::size_t first,
                           std::size_t last) {
  return {rows, cols, {{{first, 0, last - first, cols}, {0, 0, last - first, cols}}}};
}
// Columns [first, last) of a (rows, cols) tensor.
inline Placement column_slice(std::size_t rows, std::size_t cols, std::size_t first,
                              std::size_t last) {
  return {rows, cols, {{{0, first, rows, last - first}, {0, 0, rows, last - first}}}};
}

}  // namespace plumb::trace
