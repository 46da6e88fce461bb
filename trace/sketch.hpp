// trace/sketch.hpp: a trace in tiles, for runs too large to keep: of each tile of a tensor one number,
//
//   s = 2^-6 sum r_i c_j x_ij    over the rows i and columns j of the tile
//
// with odd whole numbers r, c in [-15, 15] drawn by seed, tensor, and row or column of the whole. So the
// sketch of a difference is the difference of the sketches, and |s| is 85/64 of |x| in the root mean
// square of draws. A sketch is a trace of any other program: it merges, and twins that are sketched
// alike are its tolerance. Equal tensors have equal sketches, however they lie; others may have, too.
//
// A shard's tiles are sketched where the shard is, so that tiles must not cross shards. A tensor's last
// dimension is its columns. Where that and the one before can be cut into as many equal parts as asked
// (64), a tile is a power of two that divides a part; else one number. A tile is said to be of its
// tensor's format, whose numbers it is none of: what one flip of that may be is an ulp there.
//
// Vectors, small tensors and choices are kept. How one was made is kept where it is made of such alone,
// so that updates of vectors are replayed and their settings compared. All else is left out: how other
// tensors were made, and messages.
//
// ERRORS   sums are FP64, in the order of rows, and rounded to FP32 once
// REFUSES  a trace whose ranks lack what they should hold, for a sketch could not say it; shards that
//          end within a tile
// COSTS    one read, memory of one shard a thread, and the sketch
// TESTED   tests/trace/sketch_test.cpp
// SOURCES  twins.md K1
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/sees.hpp"
#include "trace/trace.hpp"

namespace plumb::trace {

struct Tile {
  std::size_t rows = 16, columns = 16;
  bool operator==(const Tile&) const = default;
};

struct SketchOptions {
  Tile most;                // powers of two
  std::size_t shards = 64;  // into how many parts a dimension may be cut
  std::uint64_t seed = 1;
  std::size_t threads = 1;
};

// The tile of a tensor of this shape.
Tile tile_of(const std::vector<std::size_t>& shape, const SketchOptions& options);

// Throws Failure.
Trace sketched(const Trace& trace, const SketchOptions& options);

}  // namespace plumb::trace
