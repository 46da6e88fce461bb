// trace/placements/suggest.hpp: under which placement do the pieces that ranks hold fit together?
//
// Tried are on each axis of the mesh: all of it, a summand, or a chunk of a dimension: plain, in
// zigzag, or of each of two halves; and where axes share a dimension, in either order. Axes on which
// all holders have one place are left out: the tensor lives there. A placement fits if each rank's
// shard has the shape that it gives, nothing is missing and replicas agree; and if a reference is
// given, if the whole is nearer to it than a constant that no healthy run reaches (8.29 %). Without
// a reference sums are left out where anything else fits.
//
// REFUSES  unsupported   meshes and shapes with more than most_tried placements
// COSTS    one merge for each placement whose shapes fit
// TESTED   tests/trace/suggest_test.cpp
#pragma once

#include <map>
#include <string>
#include <vector>

#include "number/matrix.hpp"
#include "number/outcome.hpp"
#include "trace/placements/sharding.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

inline constexpr std::size_t most_tried = 100'000;

// A tensor of one rank, as its file has it.
struct Held {
  std::size_t rank;
  Extents shape;
  Tensor values;
};

// A run as its files hold it, whatever is said of how tensors lie.
struct AsHeld {
  struct OfTensor {
    std::string name;  // in the files
    Extents whole;     // as the first rank says it; its shard's shape where it says nothing
    std::vector<Held> held = {};  // by rank
  };
  Mesh mesh;
  std::map<std::string, OfTensor> tensors;  // by id
};

// The placements that fit, each of which puts some element elsewhere than the others. `reference`
// may be null.
Outcome<std::vector<Sharding>> fitting(const Extents& whole, const std::vector<Held>& held,
                                       const Mesh& mesh, const Tensor* reference);

}  // namespace plumb::trace
