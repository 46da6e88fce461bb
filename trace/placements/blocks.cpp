#include "trace/placements/blocks.hpp"

#include <algorithm>

namespace plumb::trace {
namespace {

bool inside(const Extents& at, const Extents& size, const Extents& shape) {
  if (at.size() != shape.size() || size.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (at[d] > shape[d] || size[d] > shape[d] - at[d]) return false;
  }
  return true;
}

// The row that indices of all dimensions but the last make.
std::size_t row_of(const Extents& at, const Extents& shape) {
  std::size_t row = 0;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) row = row * shape[d] + at[d];
  return row;
}

// Adds the pieces of one block of a tensor of two dimensions or more.
class Pieces {
 public:
  Pieces(const NdPlacement& p, const NdBlock& block) : p_(p), block_(block) {
    const std::size_t last = p.whole.size() - 1;
    inner_ = last;
    // Rows follow each other while the block has all of the dimensions within.
    while (inner_ > 0) {
      --inner_;
      rows_ *= block.size[inner_];
      if (!whole_in(inner_)) break;
    }
    for (std::size_t d = 0; d < inner_; ++d) count_ *= block.size[d];
  }

  std::size_t count() const { return count_; }
  void add_to(std::vector<Piece>& pieces) const {
    Extents step(inner_, 0);
    const std::size_t columns = block_.size.back();
    for (std::size_t i = 0; i < count_; ++i) {
      Extents global = block_.global, local = block_.local;
      for (std::size_t d = 0; d < inner_; ++d) {
        global[d] += step[d];
        local[d] += step[d];
      }
      pieces.push_back({{row_of(global, p_.whole), global.back(), rows_, columns},
                        {row_of(local, p_.shard), local.back(), rows_, columns}});
      for (std::size_t d = inner_; d-- > 0;) {
        if (++step[d] < block_.size[d]) break;
        step[d] = 0;
      }
    }
  }

 private:
  bool whole_in(std::size_t d) const {
    return block_.size[d] == p_.whole[d] && block_.size[d] == p_.shard[d];
  }

  const NdPlacement& p_;
  const NdBlock& block_;
  std::size_t inner_;  // the outermost dimension whose rows make one piece
  std::size_t rows_ = 1, count_ = 1;
};

// What is wrong with the blocks; empty: nothing.
std::string wrong_with(const NdPlacement& p) {
  for (const NdBlock& block : p.blocks) {
    if (inside(block.global, block.size, p.whole) && inside(block.local, block.size, p.shard))
      continue;
    if (block.size.size() != p.whole.size() || block.size.size() != p.shard.size())
      return "a block of " + text_of_extents(block.size) +
             ", which has not as many dimensions as " + "the whole (" + text_of_extents(p.whole) +
             ") and the shard (" + text_of_extents(p.shard) + ")";
    return "a block of " + text_of_extents(block.size) + " that lies outside of the whole (" +
           text_of_extents(p.whole) + ") or the shard (" + text_of_extents(p.shard) + ")";
  }
  return "";
}

// With dimensions of one in front, so that rows and columns are two of them at least.
NdPlacement of_two_dimensions(NdPlacement p) {
  const auto widen = [](Extents& e, std::size_t fill, bool behind) {
    e.insert(behind ? e.end() : e.begin(), fill);
  };
  const bool behind = p.whole.size() == 1;  // a vector is a column
  while (p.whole.size() < 2) {
    widen(p.whole, 1, behind);
    widen(p.shard, 1, behind);
    for (NdBlock& block : p.blocks) {
      widen(block.global, 0, behind);
      widen(block.local, 0, behind);
      widen(block.size, 1, behind);
    }
  }
  return p;
}

}  // namespace

RowsAndColumns as_matrix(const Extents& shape) {
  if (shape.size() < 2) return {shape.empty() ? 1 : shape.front(), 1};
  std::size_t rows = 1;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
  return {rows, shape.back()};
}

std::string text_of_extents(const Extents& shape) {
  std::string text;
  for (const std::size_t d : shape) text += (text.empty() ? "" : " x ") + std::to_string(d);
  return text.empty() ? "scalar" : text;
}

Outcome<Placement> flattened(const NdPlacement& placement) {
  if (const std::string wrong = wrong_with(placement); !wrong.empty()) return no(wrong);
  const NdPlacement p = of_two_dimensions(placement);
  const auto [rows, cols] = as_matrix(p.whole);
  Placement flat{rows, cols, {}, p.part, p.parts};
  for (const NdBlock& block : p.blocks) {
    if (std::ranges::find(block.size, 0U) != block.size.end()) continue;
    const Pieces pieces(p, block);
    if (pieces.count() > most_pieces - flat.pieces.size()) return no("more than a million pieces");
    pieces.add_to(flat.pieces);
  }
  return flat;
}

Outcome<NdPlacement> part_of(const NdPlacement& all, const Fused& fused) {
  const auto& [dim, period, first, size] = fused;
  if (const std::string wrong = wrong_with(all); !wrong.empty()) return no(wrong);
  if (dim >= all.whole.size() || all.whole[dim] % period != 0) {
    return no("no parts of a dimension " + std::to_string(dim) + " that repeat after " +
              std::to_string(period) + ", in a whole of " + text_of_extents(all.whole));
  }
  NdPlacement part{all.whole, all.shard, {}, all.part, all.parts};
  part.whole[dim] = all.whole[dim] / period * size;
  for (const NdBlock& block : all.blocks) {
    const std::size_t begin = block.global[dim], end = begin + block.size[dim];
    for (std::size_t k = begin / period; k * period < end; ++k) {
      const std::size_t here = k * period + first;
      const std::size_t low = std::max(begin, here), high = std::min(end, here + size);
      if (low >= high) continue;
      NdBlock mine = block;
      mine.global[dim] = k * size + (low - here);
      mine.local[dim] += low - begin;
      mine.size[dim] = high - low;
      part.blocks.push_back(std::move(mine));
    }
  }
  return part;
}

}  // namespace plumb::trace
