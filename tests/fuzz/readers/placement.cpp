// What is said of a tensor, in any spelling, and where each rank of a mesh then has which part of it.
// Behind it stands the shard's shape, a byte a dimension.
#include "number/outcome.hpp"
#include "tests/fuzz/reader.hpp"
#include "trace/placements/sharding.hpp"
#include "trace/store/json.hpp"
#include "trace/store/spelling.hpp"

namespace plumb::fuzz::placement_reader {
namespace {

// No more numbers than a file of some kilobytes has.
trace::Extents shape_of(Bytes bytes) {
  trace::Extents shape;
  std::size_t n = 1;
  for (const char c : bytes.substr(0, 4)) {
    const auto d = static_cast<unsigned char>(c);
    shape.push_back(n * d > 4096 ? 1 : d);
    n *= shape.back();
  }
  return shape;
}

void read(Bytes bytes) {
  const auto parts = parts_of(bytes, 2);
  const trace::Mesh mesh{{{"pp", 2}, {"dp", 1}, {"cp", 2}, {"tp", 3}}};
  const trace::Extents held = shape_of(parts[1]);
  const auto says = trace::described(trace::parsed(std::string(parts[0]), "it"), "x", held, mesh);
  if (!says) throw Failure(says.error().detail);
  for (std::size_t rank = 0; rank < 12; ++rank) {
    const auto lies = says->sharding
                          ? trace::held_by(rank, held, says->whole, *says->sharding, mesh)
                          : trace::NdPlacement{says->whole, held, says->blocks};
    if (lies) (void)trace::flattened(*lies);
    if (says->sharding) (void)trace::shard_of(rank, says->whole, *says->sharding, mesh);
  }
  if (says->sharding) (void)trace::owed_to({0, 3}, *says->sharding, mesh, 12);
}

const Reader placement("placement", read);

}  // namespace
}  // namespace plumb::fuzz::placement_reader
