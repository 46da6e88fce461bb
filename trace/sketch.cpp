#include "trace/sketch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "number/outcome.hpp"
#include "number/philox.hpp"
#include "trace/hands.hpp"
#include "trace/merge.hpp"
#include "trace/store/write_format2.hpp"

namespace plumb::trace {
namespace {

std::size_t tile_along(std::size_t extent, std::size_t shards, std::size_t most) {
  if (extent == 0 || extent % shards != 0) return 1;
  const std::size_t share = extent / shards;
  return std::min(most, std::size_t(1) << std::countr_zero(share));
}

std::vector<double> drawn(std::uint64_t seed, const std::string& what, std::size_t n) {
  const std::uint64_t key = key_of(seed, what);
  std::vector<double> all(n);
  for (std::size_t i = 0; i < n; i += 4) {
    const Bits bits = random_block(key, i / 4);
    for (std::size_t k = i; k < std::min(n, i + 4); ++k)
      all[k] = 2.0 * static_cast<double>(bits[k - i] & 15U) - 15;
  }
  return all;
}

// The tiles of one tensor, whoever holds them.
class Tiles {
 public:
  Tiles(const std::string& id, const std::vector<std::size_t>& shape, const Placement& whole,
        const SketchOptions& options)
      : id_(id),
        tile_(tile_of(shape, options)),
        of_row_(drawn(options.seed, id + " rows", whole.rows)),
        of_column_(drawn(options.seed, id + " columns", whole.cols)) {}

  Shard of(const Shard& shard) const {
    const Tensor x = shard.tensor();
    Shard out{shard.placement, Tensor(over(x.rows, tile_.rows), over(x.cols, tile_.columns)),
              shard.format};
    out.placement.rows /= tile_.rows;
    out.placement.cols /= tile_.columns;
    for (Piece& piece : out.placement.pieces) {
      add(x, piece, out.values);
      for (Block* block : {&piece.global, &piece.local}) {
        block->row /= tile_.rows;
        block->rows /= tile_.rows;
        block->col /= tile_.columns;
        block->cols /= tile_.columns;
      }
    }
    return out;
  }

 private:
  static std::size_t over(std::size_t n, std::size_t by) { return (n + by - 1) / by; }

  void refuse_odd(const Piece& piece) const {
    for (const Block& block : {piece.global, piece.local}) {
      const bool whole_tiles = block.row % tile_.rows == 0 && block.rows % tile_.rows == 0 &&
                               block.col % tile_.columns == 0 && block.cols % tile_.columns == 0;
      if (whole_tiles) continue;
      throw Failure(fmt::format(
          "a shard of '{}' has {} x {} numbers from row {} and column {} on, and tiles of {} x {} "
          "cross its ends; sketch all runs with smaller ones (--tile {}x{})",
          id_, block.rows, block.cols, block.row, block.col, tile_.rows, tile_.columns,
          fitting(tile_.rows, block.row, block.rows),
          fitting(tile_.columns, block.col, block.cols)));
    }
  }
  static std::size_t fitting(std::size_t tile, std::size_t first, std::size_t n) {
    while (first % tile != 0 || n % tile != 0) tile /= 2;
    return tile;
  }

  void add(const Tensor& x, const Piece& piece, Tensor& out) const {
    refuse_odd(piece);
    const Block &global = piece.global, &local = piece.local;
    std::vector<double> sums(local.cols / tile_.columns);
    for (std::size_t i = 0; i < local.rows; ++i) {
      if (i % tile_.rows == 0) std::ranges::fill(sums, 0);
      const float* row = &x(local.row + i, local.col);
      for (std::size_t j = 0; j < local.cols; ++j) {
        sums[j / tile_.columns] +=
            of_row_[global.row + i] * of_column_[global.col + j] * static_cast<double>(row[j]);
      }
      if ((i + 1) % tile_.rows != 0) continue;
      for (std::size_t t = 0; t < sums.size(); ++t) {
        const auto sum = static_cast<float>(sums[t] * 0x1p-6);
        // An infinity would be equal to another, whatever the tile holds beside it.
        out((local.row + i) / tile_.rows, local.col / tile_.columns + t) =
            std::isfinite(sum) ? sum : std::numeric_limits<float>::quiet_NaN();
      }
    }
  }

  const std::string& id_;
  Tile tile_;
  std::vector<double> of_row_, of_column_;
};

// No operation makes tiles of tiles. What is kept whole, and is made from such, is made as before.
void forget_how_tiles_were_made(const std::set<std::string>& tiled, Abouts& all) {
  const auto is_tiled = [&](const std::string& id) { return tiled.contains(id); };
  for (auto& [id, about] : all) {
    if (about.made_by && (is_tiled(id) || std::ranges::any_of(about.made_by->inputs, is_tiled)))
      about.made_by.reset();
  }
}

}  // namespace

Tile tile_of(const std::vector<std::size_t>& shape, const SketchOptions& options) {
  if (shape.size() < 2 || shape.back() == 1) return {1, 1};
  return {tile_along(shape[shape.size() - 2], options.shards, options.most.rows),
          tile_along(shape.back(), options.shards, options.most.columns)};
}

Trace sketched(const Trace& trace, const SketchOptions& options) {
  if (!trace.unfit.empty()) {
    const Finding& f = trace.unfit.front();
    throw Failure("'" + f.id + "' " + f.detail +
                  ", which a sketch cannot say; look at the trace itself with plumb check");
  }
  if (trace.manifest.settings.contains("sketch"))
    throw Failure("this is a sketch already; sketch the trace that it was made of");
  Trace out{trace.manifest, {}, std::vector<RankRecord>(trace.ranks.size()), trace.about};
  out.manifest.settings["sketch"] =
      fmt::format("tiles of {} x {} in {} parts, seed {}", options.most.rows, options.most.columns,
                  options.shards, options.seed);
  if (trace.graph) out.about = said_by(*trace.graph);
  struct Work {
    const std::string* id;
    const Shard* from;
    Shard* to;
    std::vector<std::size_t> shape;
    bool keep;
  };
  std::vector<Work> all;
  std::set<std::string> tiled;
  const Run run(trace);  // pieces that make no tensor are kept: it may be far larger than they are
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    for (const auto& [id, shard] : trace.ranks[rank].shards) {
      const auto found = out.about.find(id);
      const About about = found == out.about.end() ? About() : found->second;
      const Placement& whole = shard.placement;
      const auto shape = about.shape.empty() ? std::vector{whole.rows, whole.cols} : about.shape;
      const bool keep = about.role == Role::decision || tile_of(shape, options) == Tile{1, 1} ||
                        !run.values.contains(id);
      all.push_back({&id, &shard, &out.ranks[rank].shards[id], shape, keep});
      if (!keep) tiled.insert(id);
    }
  }
  forget_how_tiles_were_made(tiled, out.about);
  by_hands(options.threads, all.size(), [&](std::size_t i) {
    const auto& [id, from, to, shape, keep] = all[i];
    *to = keep ? Shard{from->placement, from->tensor(), from->format}
               : Tiles(*id, shape, from->placement, options).of(*from);
  });
  return out;
}

}  // namespace plumb::trace
