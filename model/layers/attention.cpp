#include "model/layers/attention.hpp"

namespace plumb {
namespace {

HeadShape local_shape(const Rank& rank) {
  const auto of = [&](int n) { return static_cast<std::size_t>(n / rank.where.tp_size); };
  return {of(rank.c.heads), of(rank.c.kv_heads), static_cast<std::size_t>(rank.c.head_dim()),
          static_cast<std::size_t>(rank.c.sequence)};
}

}  // namespace

Tensor attention_layer(Rank& rank, const std::string& name, Tensor qkv, Attention& saved) {
  const HeadShape shape = local_shape(rank);
  if (!rank.gpt()) {
    rotate_heads(qkv, shape, rank.c.rope_base, 1);
    rank.round(qkv);
    rank.tap(name + ".rope/out", qkv, Held::columns, rank.r.compute, rank.plain());
  }
  Tensor o(qkv.rows, shape.heads * shape.dim);
  const Where where = rank.at(name + ".core");
  for (std::size_t s = 0; s < qkv.rows / shape.sequence; ++s) {
    for (std::size_t h = 0; h < shape.heads; ++h) {
      Tensor p = attention_scores(rank.backend, qkv, shape, s, h);
      rank.joints.attention.after_scores(where, static_cast<int>(h), static_cast<int>(s), p);
      causal_softmax(p);
      rank.round(p);
      attend(rank.backend, p, qkv, shape, s, h, o);
      saved.p.push_back(std::move(p));
    }
  }
  rank.round(o);
  rank.tap(name + ".core/out", o, Held::columns, rank.r.compute, rank.plain());
  saved.qkv = std::move(qkv);
  return o;
}

Tensor attention_layer_backward(Rank& rank, const std::string& name, const Attention& saved,
                                const Tensor& d_o) {
  const HeadShape shape = local_shape(rank);
  Tensor d(saved.qkv.rows, saved.qkv.cols);
  for (std::size_t s = 0; s < d.rows / shape.sequence; ++s) {
    for (std::size_t h = 0; h < shape.heads; ++h) {
      const Tensor& p = saved.p[s * shape.heads + h];
      Tensor ds = score_gradient(rank.backend, p, saved.qkv, d_o, shape, s, h);
      rank.round(ds);
      attention_gradient(rank.backend, p, ds, saved.qkv, d_o, shape, s, h, d);
    }
  }
  scale_queries_and_keys(d, shape);
  rank.round(d);
  rank.tap(name + ".core/grad_in", d, Held::columns, rank.r.compute, rank.plain());
  if (!rank.gpt()) {
    rotate_heads(d, shape, rank.c.rope_base, -1);
    rank.round(d);
    rank.tap(name + ".rope/grad_in", d, Held::columns, rank.r.compute, rank.plain());
  }
  return d;
}

}  // namespace plumb
