#include "model/layers/attention.hpp"

namespace plumb {
namespace {

HeadShape local_shape(const Rank& rank) {
  const auto of = [&](int n) { return static_cast<std::size_t>(n / rank.where.tp_size); };
  return {of(rank.c.heads), of(rank.c.kv_heads), static_cast<std::size_t>(rank.c.head_dim()),
          static_cast<std::size_t>(rank.c.sequence)};
}

// Softmax(q k') v of every head of every sequence here; `saved` keeps the probabilities.
Tensor core(Rank& rank, const std::string& name, const Tensor& qkv, std::vector<Tensor>& saved) {
  const HeadShape shape = local_shape(rank);
  Tensor o(qkv.rows, shape.heads * shape.dim);
  const Where where = rank.at(name + ".core");
  for (std::size_t s = 0; s < qkv.rows / shape.sequence; ++s) {
    for (std::size_t h = 0; h < shape.heads; ++h) {
      Tensor p = attention_scores(rank.backend, qkv, shape, s, h);
      rank.joints.attention.after_scores(where, static_cast<int>(h), static_cast<int>(s), p);
      causal_softmax(p);
      rank.round(p);
      attend(rank.backend, p, qkv, shape, s, h, o);
      saved.push_back(std::move(p));
    }
  }
  rank.round(o);
  rank.tap(name + ".core/out", o, Held::columns, rank.r.compute, rank.plain());
  return o;
}

}  // namespace

Tensor attention_layer(Rank& rank, const std::string& name, Tensor qkv, Attention& saved) {
  if (!rank.gpt()) {
    rotate_heads(qkv, local_shape(rank), rank.c.rope_base, 1);
    rank.round(qkv);
    rank.tap(name + ".rope/out", qkv, Held::columns, rank.r.compute, rank.plain());
  }
  saved.qkv = std::move(qkv);
  Tensor o = core(rank, name, saved.qkv, saved.p);
  if (rank.l.selective) saved.p.clear();
  return o;
}

Tensor attention_layer_backward(Rank& rank, const std::string& name, Attention& saved,
                                const Tensor& d_o) {
  if (saved.p.empty()) {
    rank.where.recomputing = true;
    core(rank, name, saved.qkv, saved.p);
    rank.where.recomputing = false;
  }
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
