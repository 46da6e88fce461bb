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
  s.x = column_operand(rank, name + ".fc1", all_tokens(rank, std::move(x)));
  s.fc1 = column_forward(rank, name + ".fc1", s.x);
  s.act = input_operand(rank, name + ".fc2",
                        activation(rank, name + ".act", s.fc1, Sharding::token_columns),
                        Sharding::token_columns);
  return row_forward(rank, name + ".fc2", s.act);
}

Tensor mlp_backward(Rank& rank, const std::string& name, const Mlp& s, Tensor dy) {
  const Tensor d_act = row_backward(rank, name + ".fc2", s.act, std::move(dy));
  Tensor d_fc1 = activation_backward(rank, name + ".act", s.fc1, d_act, Sharding::token_columns);
  return column_backward(rank, name + ".fc1", s.x, std::move(d_fc1));
}

}  // namespace plumb::model
