// bounds/operations/block_grid.hpp: where the blocks of block_scales and quantize_blocks lie, and
// calls of both.
//
// Blocks begin anew in each of `parts` slices of the rows (sliced_rows 1) or of the columns (0),
// and of rows that are dealt in each rank's, one after the other. With ids the rows are those of
// dispatch, and blocks begin anew in each of tokens.groups groups of experts, there in each rank's
// rows.
#pragma once

#include <array>
#include <vector>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/routing.hpp"
#include "bounds/sees.hpp"
#include "number/blocks.hpp"

namespace plumb::bounds {

struct Grid {
  std::vector<std::size_t> order;       // of the rows
  std::vector<std::size_t> rows, cols;  // where blocks begin, of rows in that order, and the end
};

// The rows by group of experts, then by rank, and where their blocks begin.
template <class T>
Grid grid_of_groups(const Call<T>& call, const Matrix<T>& ids) {
  const std::size_t experts = call.count("experts"), size = call.count("rows");
  const auto groups = static_cast<std::size_t>(call.how.tokens.groups);
  const Routing routing = routing_of(ids, experts);
  const int ranks = call.how.tokens.ranks;
  // Blocks lie as promised in every draw: other cuts would make another number of blocks.
  const SumPartition tokens =
      parting(ids.rows, {ranks, fp32, fp32, {ranks, call.how.tokens.sequence}});
  Grid grid{{}, {}, block_starts(call[0].cols, call.count("cols"), call.how.parts)};
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t end =
        g + 1 < groups ? routing.first[(g + 1) * experts / groups] : call[0].rows;
    const Slice rows{routing.first[g * experts / groups], end};
    const SumPartition of_ranks = parted_rows(routing, rows, tokens);
    const std::size_t before = grid.order.size();
    for (const std::size_t i : of_ranks.order) grid.order.push_back(rows.first + i);
    for (std::size_t r = 0; r + 1 < of_ranks.begins.size(); ++r) {
      for (std::size_t i = of_ranks.begins[r]; i < of_ranks.begins[r + 1]; i += size) {
        grid.rows.push_back(before + i);
      }
    }
  }
  grid.rows.push_back(grid.order.size());
  return grid;
}

// `before`: inputs before the ids, if there are some.
template <class T>
Grid grid_of(const Call<T>& call, std::size_t before) {
  if (call.inputs.size() > before) return grid_of_groups(call, call[before]);
  const bool by_rows = call.attribute("sliced_rows") != 0;
  const int parts = call.how.parts;
  const int of_rows = call.how.tokens.ranks > 1 ? call.how.tokens.ranks : by_rows ? parts : 1;
  return {rows_in_rank_order(call[0].rows, call.how.tokens),
          block_starts(call[0].rows, call.count("rows"), of_rows),
          block_starts(call[0].cols, call.count("cols"), by_rows ? 1 : parts)};
}

// Fills a call of block_scales.
inline void random_scales(RandomCall& c) {
  constexpr std::array parts{1, 2, 4};
  constexpr std::array elements{e4m3fn, e5m2, e2m1, e2m3};
  c.table();
  c.e.attributes = {{"rows", c.draw.between(1, 4)},
                    {"cols", c.draw.between(1, 20)},
                    {"rule", c.draw.between(0, 5)},
                    {"sliced_rows", c.draw.coin()}};
  c.e.how = {parts[c.draw.between(0, 2)], fp32, elements[c.draw.between(0, 3)]};
  const bool of_experts = c.draw.between(0, 3) == 0;
  const Matrix<double> ids = c.draw.whole(c.rows, 4);
  if (!of_experts) return;
  c.e.attributes["experts"] = 4;
  c.e.attributes["sliced_rows"] = 0;
  c.e.how.tokens.groups = static_cast<int>(c.draw.between(1, 2));
  if (c.rows % 4 == 0 && c.draw.coin()) {
    c.e.how.tokens.ranks = 2;
    c.e.how.tokens.sequence = static_cast<int>(c.rows);
  }
  c.add(ids);
}

// As MXFP8: 32 numbers and a power of two.
inline void shaped_scales(Maker& m) {
  m.table();
  m.e.attributes = {{"rows", 1},
                    {"cols", 32},
                    {"rule", static_cast<double>(ScaleRule::ceil)},
                    {"sliced_rows", 0}};
  m.e.how.output = e4m3fn;
}

}  // namespace plumb::bounds
