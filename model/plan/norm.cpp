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
  const bool of_stream = !name.ends_with(".kv_norm");
  p.node(op + "_grad", {x, Promise::weight(name), dy}, {dx}, of_stream ? p.on_stream() : p.plain(),
         {{"eps", p.c.eps}});
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

std::string add_to_stream(Promise& p, const std::string& a, const std::string& b,
                          const std::string& as) {
  p.node("add", {a, b}, {as}, p.on_stream());
  return as;
}

std::string branch_grad(Promise& p, const std::string& name, const std::string& dy) {
  return p.c.dropout > 0 ? dropped(p, name + ".dropout", "grad_in", dy) : as_computed(p, name, dy);
}

std::string as_computed(Promise& p, const std::string& name, const std::string& dy) {
  if (p.r.stream == p.r.compute) return dy;
  const std::string d = p.at(name + ".branch", "grad_in");
  p.node("cast", {dy}, {d}, p.plain());
  return d;
}

}  // namespace plumb::model
