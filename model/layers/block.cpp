#include "model/layers/block.hpp"

#include "model/layers/dropout.hpp"
#include "model/layers/linear.hpp"
#include "model/layers/norm.hpp"

namespace plumb::model {

static void leave_layer(Rank& rank) {
  rank.gathering.let_go(rank.where.layer);
  rank.where.layer = -1;
}

Tensor layer_forward(Rank& rank, int layer, Tensor x, Saved& s) {
  rank.where.layer = layer;
  const std::string name = "layers." + std::to_string(layer);
  Tensor qkv = qkv_layer(rank, name, norm_layer(rank, name + ".norm1", x), s.qkv);
  Tensor o = attention_layer(rank, name + ".attn", std::move(qkv), s.attention);
  const std::string proj = name + ".attn.proj";
  Tensor kept = kept_for_adapter(rank, o);
  s.o = input_operand(rank, proj, std::move(o), Sharding::token_columns);
  Tensor attended =
      adapted_rows(rank, proj, std::move(kept), row_forward(rank, proj, s.o), s.of_proj);
  attended = dropped(rank, name + ".attn.dropout", "out", std::move(attended));
  s.middle = residual(rank, name + ".attn.add/out", x, attended);
  s.x = std::move(x);
  Tensor norm2 = norm_layer(rank, name + ".norm2", s.middle);
  Tensor units = rank.c.experts > 0 ? experts_layer(rank, name + ".mlp", norm2, s.experts)
                                    : mlp_layer(rank, name + ".mlp", std::move(norm2), s.mlp);
  units = dropped(rank, name + ".mlp.dropout", "out", std::move(units));
  Tensor y = residual(rank, name + ".mlp.add/out", s.middle, units);
  leave_layer(rank);
  return y;
}

Tensor layer_backward(Rank& rank, int layer, Saved& s, const Tensor& dy) {
  rank.where.layer = layer;
  const std::string name = "layers." + std::to_string(layer);
  Tensor d_mlp = branch_gradient(rank, name + ".mlp", dy);
  const Tensor d_norm2 = rank.c.experts > 0
                             ? experts_backward(rank, name + ".mlp", s.experts, d_mlp)
                             : mlp_backward(rank, name + ".mlp", s.mlp, std::move(d_mlp));
  const Tensor d_middle = residual(rank, name + ".attn.add/grad_out", dy,
                                   norm_layer_backward(rank, name + ".norm2", s.middle, d_norm2));
  Tensor d_attended = branch_gradient(rank, name + ".attn", d_middle);
  const std::string proj = name + ".attn.proj";
  const Tensor kept = kept_for_adapter(rank, d_attended);
  Tensor d_o = adapted_rows_backward(rank, proj, s.of_proj, kept,
                                     row_backward(rank, proj, s.o, std::move(d_attended)));
  Tensor d_qkv = attention_layer_backward(rank, name + ".attn", s.attention, std::move(d_o));
  const Tensor d_norm1 = qkv_backward(rank, name, s.qkv, std::move(d_qkv));
  Tensor dx = residual(rank, name + ".add/grad_out", d_middle,
                       norm_layer_backward(rank, name + ".norm1", s.x, d_norm1));
  leave_layer(rank);
  return dx;
}

}  // namespace plumb::model
