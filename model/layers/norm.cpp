#include "model/layers/norm.hpp"

#include "model/layers/dropout.hpp"
#include "model/layers/gradients.hpp"

namespace plumb::model {

Tensor norm_layer(Rank& rank, const std::string& name, const Tensor& x) {
  std::span<const float> bias;
  if (rank.gpt()) bias = rank.bias(name).values;
  Tensor y = norm_forward(x, rank.weight(name).values, bias, static_cast<float>(rank.c.eps));
  rank.round(y);
  rank.hand_on(name + "/out", y, Sharding::own_tokens, rank.r.compute, rank.plain());
  return y;
}

Tensor norm_layer_backward(Rank& rank, const std::string& name, const Tensor& x, const Tensor& dy) {
  NormGradients g =
      norm_backward(x, rank.weight(name).values, dy, rank.gpt(), static_cast<float>(rank.c.eps));
  const bool of_stream = !name.ends_with(".kv_norm");
  of_stream ? rank.round_to_stream(g.dx) : rank.round(g.dx);
  rank.hand_on(name + "/grad_in", g.dx, Sharding::own_tokens,
               of_stream ? rank.r.stream : rank.r.compute,
               of_stream ? rank.on_stream() : rank.plain());
  collect_replicated(rank, name + ".weight", std::move(g.weight));
  if (rank.gpt()) collect_replicated(rank, name + ".bias", std::move(g.bias));
  return std::move(g.dx);
}

Tensor sum_of_two(Rank& rank, const std::string& name, const Tensor& a, const Tensor& b) {
  Tensor y = sum_of(a, b);
  rank.round(y);
  rank.hand_on(name, y, Sharding::own_tokens, rank.r.compute, rank.plain());
  return y;
}

Tensor residual(Rank& rank, const std::string& name, const Tensor& a, const Tensor& b) {
  Tensor y = sum_of(a, b);
  rank.round_to_stream(y);
  rank.hand_on(name, y, Sharding::own_tokens, rank.r.stream, rank.on_stream());
  return y;
}

Tensor branch_gradient(Rank& rank, const std::string& name, const Tensor& dy) {
  return rank.c.dropout > 0 ? dropped(rank, name + ".dropout", "grad_in", dy)
                            : as_computed(rank, name, dy);
}

Tensor as_computed(Rank& rank, const std::string& name, const Tensor& dy) {
  if (rank.r.stream == rank.r.compute) return dy;
  Tensor d = dy;
  rank.round(d);
  rank.hand_on(name + ".branch/grad_in", d, Sharding::own_tokens, rank.r.compute, rank.plain());
  return d;
}

}  // namespace plumb::model
