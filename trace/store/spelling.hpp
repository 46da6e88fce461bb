// trace/store/spelling.hpp: what a producer says of a tensor in JSON, in whichever of the four
// spellings of a placement: placements on a mesh (as DTensor has them), a text of dimensions, a
// PartitionSpec (JAX), or offsets of blocks (as checkpoints have them).
//
// REFUSES  unsupported   what is not as trace/store/tensor.schema.json says; two spellings at once;
//                        a placement without the shape of the whole
// TESTED   tests/trace/format2_test.cpp
#pragma once

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "number/format.hpp"
#include "number/outcome.hpp"
#include "trace/about.hpp"
#include "trace/placements/sharding.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

inline constexpr std::array spellings{"placements", "dims", "partition_spec", "offsets"};

struct Described {
  std::string id;  // canonical
  Extents whole;
  std::optional<Format> format;
  About about;
  std::optional<Sharding> sharding;  // absent: by blocks, and nobody says who else has some
  std::vector<NdBlock> blocks;       // without a sharding
  bool told = true;                  // is it said how it lies? If not, the shard is the whole
  int part = 0, parts = 1;           // of blocks
};

// Of the tensor `name`, which the file holds in the shape `held`.
Outcome<Described> described(const nlohmann::json& says, const std::string& name,
                             const Extents& held, const Mesh& mesh);

}  // namespace plumb::trace
