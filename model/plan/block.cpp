#include "model/plan/parts.hpp"

namespace plumb::model {

std::string layer_forward(Promise& p, int n, const std::string& x) {
  const std::string name = Promise::layer(n);
  const std::string attended = attention(p, name, norm(p, name + ".norm1", x));
  const std::string o = dropped(p, name + ".attn.dropout", "out", attended);
  const std::string middle = add_to_stream(p, x, o, p.at(name + ".attn.add", "out"));
  const std::string x2 = norm(p, name + ".norm2", middle);
  const std::string y = (p.c.experts > 0 ? experts : mlp)(p, name + ".mlp", x2);
  return add_to_stream(p, middle, dropped(p, name + ".mlp.dropout", "out", y),
                       p.at(name + ".mlp.add", "out"));
}

// Returns the id of the gradient of the layer's input.
std::string layer_backward(Promise& p, int n, const std::string& x, const std::string& dy) {
  const std::string name = Promise::layer(n);
  const auto grad = p.c.experts > 0 ? experts_grad : mlp_grad;
  const std::string d_mlp = branch_grad(p, name + ".mlp", dy);
  const std::string d_y = grad(p, name + ".mlp", p.at(name + ".norm2", "out"), d_mlp);
  const std::string d_norm2 = norm_grad(p, name + ".norm2", p.at(name + ".attn.add", "out"), d_y);
  const std::string d_middle = add_to_stream(p, dy, d_norm2, p.at(name + ".attn.add", "grad_out"));
  const std::string d_o = branch_grad(p, name + ".attn", d_middle);
  const std::string d_norm1 = norm_grad(p, name + ".norm1", x, attention_grad(p, name, d_o));
  return add_to_stream(p, d_middle, d_norm1, p.at(name + ".add", "grad_out"));
}

}  // namespace plumb::model
