#include "model/plan/parts.hpp"

namespace plumb::model {

// LayerNorm (gpt) or RMSNorm                              (T, C) = (T, C), (C) (, (C))
std::string norm(Promise& p, const std::string& name, const std::string& x) {
  Ids inputs{x, Promise::weight(name)};
  if (p.gpt()) inputs.push_back(Promise::bias(name));
  const std::string y = p.at(name, "out");
  p.node(p.gpt() ? "layernorm" : "rmsnorm", inputs, {y}, p.plain(), {{"eps", p.c.eps}});
  return y;
}

// dx (T, C); dg (C) (, db (C))
std::string norm_grad(Promise& p, const std::string& name, const std::string& x,
                      const std::string& dy) {
  const std::string op = p.gpt() ? "layernorm" : "rmsnorm";
  const std::string dx = p.at(name, "grad_in");
  p.node(op + "_grad", {x, Promise::weight(name), dy}, {dx}, p.plain(), {{"eps", p.c.eps}});
  Ids outputs{p.at(name + ".weight", "wgrad")};
  if (p.gpt()) outputs.push_back(p.at(name + ".bias", "wgrad"));
  p.node(op + "_wgrad", {x, Promise::weight(name), dy}, outputs, p.over_tokens(),
         {{"eps", p.c.eps}});
  return dx;
}

std::string add(Promise& p, const std::string& a, const std::string& b, const std::string& as) {
  p.node("add", {a, b}, {as}, p.plain());
  return as;
}

}  // namespace plumb::model
