#include "model/layers/embedding.hpp"

#include "model/joints/layers.hpp"
#include "model/layers/context.hpp"
#include "model/layers/dropout.hpp"
#include "model/layers/gradients.hpp"
#include "model/layers/linear.hpp"

namespace plumb::model {
namespace {

// Returns the gradient rows of this rank's slice of the vocabulary.               // (V / tp, D)
Tensor own_rows_gradient(const Rank& rank, const Tensor& ids, const Tensor& dx) {
  const auto v = static_cast<std::size_t>(rank.c.vocabulary());
  Tensor table(v / rank.where.tp_size, dx.cols);
  for (std::size_t t = 0; t < dx.rows; ++t) {
    const auto id = static_cast<std::size_t>(ids.values[t]);
    if (id < rank.first(v) || id >= rank.last(v)) continue;
    for (std::size_t j = 0; j < dx.cols; ++j) table(id - rank.first(v), j) += dx(t, j);
  }
  return table;
}

// Looks up rows, unrounded: the sum of one row and zeros is exact in any layout.
Tensor rows_of_table(Rank& rank, const std::string& name, const Tensor& ids) {
  const auto v = static_cast<std::size_t>(rank.c.vocabulary());
  const auto first = static_cast<int>(rank.first(v));
  const auto last = static_cast<int>(rank.last(v));
  const Tensor& table = rank.weight("embedding");
  Tensor x(ids.rows, table.cols);
  const Where where = rank.at(name);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const auto id = static_cast<int>(ids.values[t]);
    const int local = id >= first && id < last ? id - first : 0;
    if (rank.joints.embedding.keeps_row(where, id, local, first, last)) {
      std::copy_n(table.row(static_cast<std::size_t>(local)), x.cols, x.row(t));
    }
  }
  Evaluation ignored;
  return rank.joints.embedding.sums_over_slices(where)
             ? summed_over_ranks(rank, std::move(x), fp32, ignored)
             : rank.own_tokens(std::move(x));
}

// The position in its document of each of this rank's tokens of the residual stream.
std::vector<std::size_t> own_positions(const Rank& rank, const Batch& batch) {
  const std::vector<std::size_t>& of = rank.positions_of(rank.where.cp);
  const std::size_t n = batch.ids.rows;
  std::vector<std::size_t> positions;
  for (std::size_t t = rank.l.sp ? rank.first(n) : 0; t < (rank.l.sp ? rank.last(n) : n); ++t) {
    const bool packed = rank.c.documents > 0;
    positions.push_back(packed ? static_cast<std::size_t>(batch.positions.values[t])
                               : of[t % of.size()]);
  }
  return positions;
}

}  // namespace

Tensor look_up(Rank& rank, const std::string& name, const Tensor& ids) {
  Tensor x = rows_of_table(rank, name, ids);
  rank.hand_on(name + "/out", x, Sharding::own_tokens, rank.r.stream, rank.on_stream());
  return x;
}

Tensor look_up_backward(Rank& rank, const Tensor& ids, const Tensor& dx) {
  return own_rows_gradient(rank, ids, all_tokens(rank, dx));
}

Tensor embed(Rank& rank, const Batch& batch) {
  Tensor x = rows_of_table(rank, "embedding", batch.ids);
  if (rank.gpt()) {
    const Tensor& table_of_positions = rank.weight("position");
    const std::vector<std::size_t> positions = own_positions(rank, batch);
    for (std::size_t t = 0; t < x.rows; ++t) {
      for (std::size_t j = 0; j < x.cols; ++j) x(t, j) += table_of_positions(positions[t], j);
    }
    rank.round_to_stream(x);
  }
  rank.hand_on("embedding/out", x, Sharding::own_tokens, rank.r.stream, rank.on_stream());
  return dropped(rank, "embedding.dropout", "out", std::move(x));
}

void embed_backward(Rank& rank, const Batch& batch, const Tensor& dy) {
  const Tensor dx = dropped(rank, "embedding.dropout", "grad_in", dy);
  collect_slice(rank, "embedding.weight", look_up_backward(rank, batch.ids, dx), Sharding::rows);
  if (!rank.gpt()) return;
  const std::vector<std::size_t> positions = own_positions(rank, batch);
  Tensor gradient(static_cast<std::size_t>(rank.c.sequence), dx.cols);
  for (std::size_t t = 0; t < dx.rows; ++t) {
    for (std::size_t j = 0; j < dx.cols; ++j) gradient(positions[t], j) += dx(t, j);
  }
  collect_replicated(rank, "position.weight", std::move(gradient));
}

}  // namespace plumb::model
