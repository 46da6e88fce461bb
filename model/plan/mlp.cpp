#include "model/plan/parts.hpp"

namespace plumb::model {

std::string activation(Promise& p, const std::string& name, const std::string& x) {
  const std::string y = p.at(name, "out");
  p.node(p.gpt() ? "gelu" : "swiglu", {x}, {y}, p.plain());
  return y;
}

std::string activation_grad(Promise& p, const std::string& name, const std::string& x,
                            const std::string& dy) {
  const std::string dx = p.at(name, "grad_in");
  p.node(p.gpt() ? "gelu_grad" : "swiglu_grad", {x, dy}, {dx}, p.plain());
  return dx;
}

// fc1 (T, H) or gate and up (T, 2 H); act (T, H); fc2 (T, C)
std::string mlp(Promise& p, const std::string& name, const std::string& x) {
  const std::string fc1 = adapted(p, name + ".fc1", x, Sharding::columns);
  return adapted(p, name + ".fc2", activation(p, name + ".act", fc1), Sharding::rows);
}

std::string mlp_grad(Promise& p, const std::string& name, const std::string& x,
                     const std::string& dy) {
  const std::string d_act =
      adapted_grad(p, name + ".fc2", p.at(name + ".act", "out"), dy, Sharding::rows);
  const std::string d_fc1 = activation_grad(p, name + ".act", p.output_of(name + ".fc1"), d_act);
  return adapted_grad(p, name + ".fc1", x, d_fc1, Sharding::columns);
}

}  // namespace plumb::model
