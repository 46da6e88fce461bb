// trace/placements/blocks.hpp: the one form that every spelling of a placement becomes: blocks of
// N dimensions, and from them the rows and columns that merging knows.
//
// A tensor of N dimensions is the matrix of its last one: (a, b, c) -> (a b, c), (n) -> (n, 1), a
// scalar (1, 1). A block of the tensor is then one piece or several.
//
// REFUSES  unsupported   blocks outside of the whole or the shard, and more than a million pieces
// TESTED   tests/trace/placements_test.cpp, tests/trace/random_placements_test.cpp
#pragma once

#include <cstddef>
#include <vector>

#include "number/outcome.hpp"
#include "trace/placement.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

using Extents = std::vector<std::size_t>;  // one number a dimension

struct NdBlock {
  Extents global, local, size;  // where it begins in the whole and in the shard; how large it is
};

struct NdPlacement {
  Extents whole, shard;  // shapes
  std::vector<NdBlock> blocks;
  int part = 0, parts = 1;  // as of Placement
};

inline constexpr std::size_t most_pieces = std::size_t(1) << 20;

struct RowsAndColumns {
  std::size_t rows, cols;
};
RowsAndColumns as_matrix(const Extents& shape);

// "2 x 3 x 4", "scalar"
std::string text_of_extents(const Extents& shape);

Outcome<Placement> flattened(const NdPlacement& placement);

// A tensor that lies fused with others: along `dim` all of them repeat with a period, in which this one
// has `size` numbers from `first` on (query heads of each group, of query, key and value).
struct Fused {
  std::size_t dim, period, first, size;
};
// Where that tensor lies, in the shards of all of them.
// REFUSES  unsupported   a dimension that the tensor does not have, or that is no number of periods
Outcome<NdPlacement> part_of(const NdPlacement& all, const Fused& fused);

}  // namespace plumb::trace
