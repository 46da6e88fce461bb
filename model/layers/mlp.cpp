#include "model/layers/mlp.hpp"

#include "model/layers/linear.hpp"

namespace plumb::model {

Tensor activation(Rank& rank, const std::string& name, const Tensor& fc1, Sharding sharding) {
  Tensor act = rank.gpt() ? gelu_forward(fc1) : swiglu_forward(fc1);
  rank.round(act);
  rank.tap(name + "/out", act, sharding, rank.r.compute, rank.plain());
  return act;
}

Tensor activation_backward(Rank& rank, const std::string& name, const Tensor& fc1,
                           const Tensor& d_act, Sharding sharding) {
  Tensor d = rank.gpt() ? gelu_backward(fc1, d_act) : swiglu_backward(fc1, d_act);
  rank.round(d);
  rank.tap(name + "/grad_in", d, sharding, rank.r.compute, rank.plain());
  return d;
}

Tensor mlp_layer(Rank& rank, const std::string& name, Tensor x, Mlp& s) {
  const std::string fc1 = name + ".fc1", fc2 = name + ".fc2";
  Tensor kept;
  Tensor y = gathering_column_forward(rank, fc1, std::move(x), s.x, kept);
  s.fc1 = adapted_columns(rank, fc1, std::move(kept), std::move(y), s.of_fc1);
  Tensor act = activation(rank, name + ".act", s.fc1, Sharding::token_columns);
  kept = kept_for_adapter(rank, act);
  s.act = input_operand(rank, fc2, std::move(act), Sharding::token_columns);
  return adapted_rows(rank, fc2, std::move(kept), row_forward(rank, fc2, s.act), s.of_fc2);
}

Tensor mlp_backward(Rank& rank, const std::string& name, const Mlp& s, Tensor dy) {
  const std::string fc1 = name + ".fc1", fc2 = name + ".fc2";
  const Tensor kept = kept_for_adapter(rank, dy);
  const Tensor d_act = adapted_rows_backward(rank, fc2, s.of_fc2, kept,
                                             row_backward(rank, fc2, s.act, std::move(dy)));
  Tensor d_fc1 = activation_backward(rank, name + ".act", s.fc1, d_act, Sharding::token_columns);
  Tensor of_adapter = kept_for_adapter(rank, d_fc1);
  return adapted_columns_backward(rank, fc1, s.of_fc1, std::move(of_adapter),
                                  column_backward(rank, fc1, s.x, std::move(d_fc1)));
}

}  // namespace plumb::model
