#include "model/plan/parts.hpp"

namespace plumb {

// fc1 (T, H) or gate and up (T, 2 H); act (T, H); fc2 (T, C)
std::string mlp(Promise& p, const std::string& name, const std::string& x) {
  const std::string fc1 = linear(p, name + ".mlp.fc1", x, Split::columns);
  const std::string act = p.at(name + ".mlp.act", "out");
  p.node(p.gpt() ? "gelu" : "swiglu", {fc1}, {act}, p.plain());
  return linear(p, name + ".mlp.fc2", act, Split::rows);
}

std::string mlp_grad(Promise& p, const std::string& name, const std::string& dy) {
  const std::string d_act =
      linear_grad(p, name + ".mlp.fc2", p.at(name + ".mlp.act", "out"), dy, Split::rows);
  const std::string d_fc1 = p.at(name + ".mlp.act", "grad_in");
  p.node(p.gpt() ? "gelu_grad" : "swiglu_grad", {p.at(name + ".mlp.fc1", "out"), d_act}, {d_fc1},
         p.plain());
  return linear_grad(p, name + ".mlp.fc1", p.at(name + ".norm2", "out"), d_fc1, Split::columns);
}

}  // namespace plumb
