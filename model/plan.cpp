#include "model/plan.hpp"

#include "model/plan/parts.hpp"

namespace plumb {
namespace {

// What layer n reads from the residual stream.
std::string stream(const Promise& p, int n) {
  if (n == 0) return p.at(p.c.dropout > 0 ? "embedding.dropout" : "embedding", "out");
  return p.at(Promise::layer(n - 1) + ".mlp.add", "out");
}

void layer_forward(Promise& p, int n) {
  const std::string name = Promise::layer(n);
  const std::string x = stream(p, n);
  const std::string attended = attention(p, name, norm(p, name + ".norm1", x));
  const std::string o = dropped(p, name + ".attn.dropout", "out", attended);
  const std::string middle = add(p, x, o, p.at(name + ".attn.add", "out"));
  const std::string x2 = norm(p, name + ".norm2", middle);
  const std::string y = (p.c.experts > 0 ? experts : mlp)(p, name + ".mlp", x2);
  add(p, middle, dropped(p, name + ".mlp.dropout", "out", y), p.at(name + ".mlp.add", "out"));
}

// Returns the id of the gradient of the layer's input.
std::string layer_backward(Promise& p, int n, const std::string& dy) {
  const std::string name = Promise::layer(n);
  const auto grad = p.c.experts > 0 ? experts_grad : mlp_grad;
  const std::string d_mlp = dropped(p, name + ".mlp.dropout", "grad_in", dy);
  const std::string d_y = grad(p, name + ".mlp", p.at(name + ".norm2", "out"), d_mlp);
  const std::string d_norm2 = norm_grad(p, name + ".norm2", p.at(name + ".attn.add", "out"), d_y);
  const std::string d_middle = add(p, dy, d_norm2, p.at(name + ".attn.add", "grad_out"));
  const std::string d_o = dropped(p, name + ".attn.dropout", "grad_in", d_middle);
  const std::string d_norm1 =
      norm_grad(p, name + ".norm1", stream(p, n), attention_grad(p, name, d_o));
  return add(p, d_middle, d_norm1, p.at(name + ".add", "grad_out"));
}

void forward(Promise& p) {
  p.phase = Phase::forward;
  dropped(p, "embedding.dropout", "out", embedding(p));
  for (int n = 0; n < p.c.layers; ++n) layer_forward(p, n);
  head_and_loss(p, stream(p, p.c.layers));
}

void backward(Promise& p) {
  p.phase = Phase::backward;
  std::string dx = norm_grad(p, "final_norm", stream(p, p.c.layers), head_and_loss_grad(p));
  for (int n = p.c.layers - 1; n >= 0; --n) dx = layer_backward(p, n, dx);
  embedding_grad(p, dropped(p, "embedding.dropout", "grad_in", dx));
}

// Blocks of rows run on from expert to expert, and histories of experts would need groups of ranks.
void refuse_divided_experts(const Recipe& recipe, const Layout& layout) {
  if (layout.ep == 1 || !recipe.operands) return;
  const Scaling how = recipe.operands->activations.scaling;
  if (how != Scaling::block && how != Scaling::delayed) return;
  throw Failure("recipe " + recipe.id + " scales by " +
                (how == Scaling::block ? "blocks" : "histories") + ", and ep" +
                std::to_string(layout.ep) +
                " divides the experts among ranks, which do not go together yet; choose another "
                "recipe or leave ep out");
}

}  // namespace

Graph plan(const Config& config, const Recipe& recipe, const Layout& layout, int step) {
  check_layout(layout, config);
  refuse_divided_experts(recipe, layout);
  Promise p(config, recipe, layout, step);
  weight_operands(p);
  for (p.micro_batch = 0; p.micro_batch < config.micro_batches; ++p.micro_batch) {
    forward(p);
    backward(p);
  }
  p.phase = Phase::reduce;
  reduce(p);
  p.phase = Phase::optimizer;
  optimize(p);
  return std::move(p.graph);
}

}  // namespace plumb
