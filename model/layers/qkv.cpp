#include "model/layers/qkv.hpp"

#include "model/joints/gradients.hpp"
#include "model/layers/attention.hpp"
#include "model/layers/copied_keys.hpp"
#include "model/layers/linear.hpp"
#include "model/layers/norm.hpp"

namespace plumb::model {
namespace {

Operand seen_by_latents(Rank& rank, const std::string& product, Tensor all) {
  return input_operand(rank, product, std::move(all), Sharding::tokens);
}

// x: all tokens.                                                           // (T, F' / tp)
Tensor keys_and_values(Rank& rank, const std::string& attn, const Tensor& x, Qkv& s) {
  s.down = seen_by_latents(rank, attn + ".kv_down", x);
  s.latent = whole_forward(rank, attn + ".kv_down", s.down);
  const Tensor normed = norm_layer(rank, attn + ".kv_norm", s.latent);
  s.up = seen_by_latents(rank, attn + ".kv_up", all_tokens(rank, normed));
  return column_forward(rank, attn + ".kv_up", s.up);
}

// The columns of every key that all heads share.                                   // (T, s)
Tensor shared_key(Rank& rank, const std::string& attn, const Tensor& x, Qkv& s) {
  s.shared = seen_by_latents(rank, attn + ".shared_key", x);
  return all_tokens(rank, whole_forward(rank, attn + ".shared_key", s.shared));
}

Tensor through_latent(Rank& rank, const std::string& name, const Tensor& x, Qkv& s) {
  const std::string attn = name + ".attn", queries = name + rank.c.queries();
  HeadParts parts;
  s.x = column_operand(rank, queries, x);
  parts.q = column_forward(rank, queries, s.x);
  parts.kv = keys_and_values(rank, attn, x, s);
  if (rank.c.shared_key > 0) parts.shared = shared_key(rank, attn, x, s);
  Tensor qkv = pack_heads(parts, local_shape(rank));
  rank.tap(attn + ".qkv/out", qkv, Sharding::token_columns, rank.r.compute, rank.plain());
  return qkv;
}

// Gradient of x by way of the latent.
Tensor keys_and_values_backward(Rank& rank, const std::string& attn, const Qkv& s, Tensor d_kv) {
  const Tensor d_normed = column_backward(rank, attn + ".kv_up", s.up, std::move(d_kv));
  const Tensor d_latent = norm_layer_backward(rank, attn + ".kv_norm", s.latent, d_normed);
  return whole_backward(rank, attn + ".kv_down", s.down, d_latent);
}

// d: the gradients that this rank's heads give to the columns that all share.         // (T, s)
Tensor shared_key_backward(Rank& rank, const std::string& attn, const Qkv& s, Tensor d) {
  const std::string name = attn + ".shared_key";
  Evaluation ran = rank.plain();
  Tensor summed = rank.joints.gradients.sums_over_heads(rank.at(name))
                      ? summed_over_ranks(rank, std::move(d), rank.r.wire, ran)
                      : rank.own_tokens(std::move(d));
  rank.round(summed);
  rank.tap(name + "/grad_out", summed, Sharding::own_tokens, rank.r.compute, ran);
  return whole_backward(rank, name, s.shared, summed);
}

Tensor through_latent_backward(Rank& rank, const std::string& name, const Qkv& s,
                               const Tensor& d_qkv) {
  const std::string attn = name + ".attn", queries = name + rank.c.queries();
  const auto shared = static_cast<std::size_t>(rank.c.shared_key);
  HeadParts d = split_heads(d_qkv, local_shape(rank), shared);
  const auto record = [&](const std::string& of, const Tensor& x) {
    rank.tap(of + "/grad_out", x, Sharding::token_columns, rank.r.compute, rank.plain());
  };
  record(queries, d.q);
  record(attn + ".kv_up", d.kv);
  Tensor dx = column_backward(rank, queries, s.x, std::move(d.q));
  dx = sum_of_two(rank, attn + ".kv_down.add/grad_out", dx,
                  keys_and_values_backward(rank, attn, s, std::move(d.kv)));
  if (shared == 0) return dx;
  return sum_of_two(rank, attn + ".shared_key.add/grad_out", dx,
                    shared_key_backward(rank, attn, s, std::move(d.shared)));
}

}  // namespace

Tensor qkv_layer(Rank& rank, const std::string& name, Tensor x, Qkv& saved) {
  if (rank.c.latent > 0) return through_latent(rank, name, all_tokens(rank, std::move(x)), saved);
  const std::string product = name + rank.c.queries();
  Tensor all;
  Tensor y = gathering_column_forward(rank, product, std::move(x), saved.x, all);
  return with_copied_keys(
      rank, adapted_columns(rank, product, std::move(all), std::move(y), saved.adapter));
}

Tensor qkv_backward(Rank& rank, const std::string& name, const Qkv& saved, Tensor d_qkv) {
  if (rank.c.latent > 0) return through_latent_backward(rank, name, saved, d_qkv);
  const std::string product = name + rank.c.queries();
  d_qkv = without_copies(rank, name + ".attn", std::move(d_qkv));
  Tensor kept = kept_for_adapter(rank, d_qkv);
  return adapted_columns_backward(rank, product, saved.adapter, std::move(kept),
                                  column_backward(rank, product, saved.x, std::move(d_qkv)));
}

}  // namespace plumb::model
