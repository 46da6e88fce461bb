#include "model/layers/copied_keys.hpp"

#include "model/joints/gradients.hpp"
#include "model/spec/ownership.hpp"

namespace plumb::model {
namespace {

bool copies_keys(const Rank& rank) { return key_copies(rank.c, rank.l) > 1; }

std::vector<Columns> own_heads(const Rank& rank) {
  return columns_of_heads(rank.c, rank.l, rank.where.tp);
}

std::size_t width_of_all(const Rank& rank) { return static_cast<std::size_t>(rank.c.qkv_width()); }

// Copies columns of `from`, `count` of them, beginning with `at`, to those of `to` from `place` on.
void copy_block(const Tensor& from, std::size_t at, std::size_t count, Tensor& to,
                std::size_t place) {
  for (std::size_t t = 0; t < from.rows; ++t) {
    std::copy_n(from.row(t) + at, count, to.row(t) + place);
  }
}

// All columns, from the even slices of all ranks.                                          // (T, F)
Tensor all_columns(const Rank& rank, const Tensor& slice) {
  const Tensor stacked = rank.mesh.tp.gather_rows(slice);
  Tensor all(slice.rows, width_of_all(rank), to_be_written);
  for (std::size_t i = 0; i < stacked.rows; ++i) {
    const std::size_t of = i / slice.rows;
    std::copy_n(stacked.row(i), slice.cols, all.row(i % slice.rows) + of * slice.cols);
  }
  return all;
}

}  // namespace

Tensor with_copied_keys(Rank& rank, Tensor qkv) {
  if (!copies_keys(rank)) return qkv;
  const Tensor all = all_columns(rank, qkv);
  const std::vector<Columns> blocks = own_heads(rank);
  Tensor own(all.rows, blocks[0].count + blocks[1].count, to_be_written);
  copy_block(all, blocks[0].first, blocks[0].count, own, 0);
  copy_block(all, blocks[1].first, blocks[1].count, own, blocks[0].count);
  return own;
}

Tensor without_copies(Rank& rank, const std::string& attn, Tensor d_qkv) {
  if (!copies_keys(rank)) return d_qkv;
  const std::vector<Columns> blocks = own_heads(rank);
  const float promised = rank.where.tp % key_copies(rank.c, rank.l) == 0 ? 1.0F : 0.0F;
  const float share = rank.joints.gradients.share_of_keys(rank.at(attn + ".qkv"), promised);
  for (std::size_t t = 0; t < d_qkv.rows; ++t) {
    for (std::size_t j = blocks[0].count; j < d_qkv.cols; ++j) {
      float& x = d_qkv(t, j);
      x = share == 0 ? 0 : x * share;  // zero also where x has overflown
    }
  }
  // Each column is one rank's, and zero elsewhere: the sum rounds nothing.
  Tensor all(d_qkv.rows, width_of_all(rank));
  copy_block(d_qkv, 0, blocks[0].count, all, blocks[0].first);
  copy_block(d_qkv, blocks[0].count, blocks[1].count, all, blocks[1].first);
  rank.mesh.tp.sum(all.values, fp32);
  Tensor slice(d_qkv.rows, all.cols / static_cast<std::size_t>(rank.where.tp_size), to_be_written);
  copy_block(all, slice.cols * static_cast<std::size_t>(rank.where.tp), slice.cols, slice, 0);
  return slice;
}

void sum_over_copies(Rank& rank, const std::string& attn, Tensor& d_qkv, Evaluation& ran) {
  if (!copies_keys(rank)) return;
  ran.parts = ran.tokens.groups = key_copies(rank.c, rank.l);
  if (!rank.joints.gradients.sums_over_heads(rank.at(attn + ".core"))) return;
  const auto pair = own_heads(rank)[1].count, queries = own_heads(rank)[0].count;
  const auto group = static_cast<std::size_t>(rank.where.tp / key_copies(rank.c, rank.l));
  Tensor keys(d_qkv.rows, pair * static_cast<std::size_t>(rank.c.kv_heads));
  copy_block(d_qkv, queries, pair, keys, group * pair);
  rank.mesh.tp.sum(keys.values, fp32);
  copy_block(keys, group * pair, pair, d_qkv, queries);
}

}  // namespace plumb::model
