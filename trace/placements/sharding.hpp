// trace/placements/sharding.hpp: how a tensor lies on a mesh, said once for all ranks.
//
// A split takes one axis of the mesh. Splits are taken one after the other, the first one
// outermost, as DTensor takes its placements:
//
//   shard       of a dimension each rank has a chunk, as torch.chunk cuts it: ceil(n / ranks) each,
//               of which the last may be short or empty
//     stride s  the dimension is s chunks, and of each a rank has a chunk (_StridedShard; gate and
//               up of a fused product)
//     groups    the same, of groups of these sizes (fused query, key, value)
//     sizes     each rank's share, where they are ragged (tokens of experts)
//     zigzag    of 2 ranks chunks a rank has number r and number 2 ranks - 1 - r
//     padded n  the dimension is as if it had n numbers; those beyond the whole are nobody's
//   replicate   each rank has all of it
//   partial     each rank has a summand
//
// On an axis that no split takes the tensor lives only where it was found: a stage of a pipeline.
//
// REFUSES  unsupported   axes and dimensions that are not there, or taken twice; sizes that do not
//                        add up
// TESTED   tests/trace/placements_test.cpp, tests/trace/random_placements_test.cpp
#pragma once

#include <cstddef>
#include <vector>

#include "number/outcome.hpp"
#include "trace/placements/blocks.hpp"
#include "trace/placements/mesh.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

struct Split {
  enum class Kind { shard, replicate, partial };

  std::size_t axis = 0;  // of the mesh
  Kind kind = Kind::replicate;
  std::size_t dim = 0;
  std::size_t stride = 1;
  Extents groups = {}, sizes = {};
  bool zigzag = false;
  std::size_t padded = 0;  // 0: not
  bool operator==(const Split&) const = default;
};
using Sharding = std::vector<Split>;

// The shape of what a rank holds of a tensor of shape `whole`.
Outcome<Extents> shard_of(std::size_t rank, const Extents& whole, const Sharding& sharding,
                          const Mesh& mesh);

// Where it lies. Refuses a `shard` of another shape, before it counts blocks: their number is then
// at most that of the shard's elements.
Outcome<NdPlacement> held_by(std::size_t rank, const Extents& shard, const Extents& whole,
                             const Sharding& sharding, const Mesh& mesh);

// The ranks that hold something of a tensor that `holders` hold: those which lie as one of them does
// on the axes that no split takes.
std::vector<std::size_t> owed_to(const std::vector<std::size_t>& holders, const Sharding& sharding,
                                 const Mesh& mesh, std::size_t ranks);

}  // namespace plumb::trace
