#include "model/plan/plan.hpp"

#include "model/plan/parts.hpp"
#include "model/plan/rewriting.hpp"

namespace plumb::model {
namespace {

// The input of layer n in the residual stream: what came of the last one before it that is not idle.
std::string stream(const Promise& p, int n) {
  while (n > 0 && is_idle(p.c, n - 1, p.step)) --n;
  if (n == 0) return p.at(p.c.dropout > 0 ? "embedding.dropout" : "embedding", "out");
  return p.at(Promise::layer(n - 1) + ".mlp.add", "out");
}

void forward(Promise& p) {
  p.phase = Phase::forward;
  dropped(p, "embedding.dropout", "out", embedding(p));
  for (int n = 0; n < p.c.layers; ++n) {
    if (!is_idle(p.c, n, p.step)) layer_forward(p, n, stream(p, n));
  }
  const std::string x = stream(p, p.c.layers);
  head_and_loss(p, "", norm(p, "final_norm", x));
  if (p.c.mtp > 0) predict_ahead(p, x);
}

void backward(Promise& p) {
  p.phase = Phase::backward;
  const std::string x = stream(p, p.c.layers), h = p.at("final_norm", "out");
  std::string dx = norm_grad(p, "final_norm", x, head_and_loss_grad(p, "", h));
  if (p.c.mtp > 0) dx = add_to_stream(p, dx, predict_ahead_grad(p, x), p.at("mtp.add", "grad_out"));
  for (int n = p.c.layers - 1; n >= 0; --n) {
    if (!is_idle(p.c, n, p.step)) dx = layer_backward(p, n, stream(p, n), dx);
  }
  embedding_grad(p, dropped(p, "embedding.dropout", "grad_in", dx));
}

}  // namespace

Graph plan(const Config& config, const Recipe& recipe, const Layout& layout, int step) {
  check_layout(layout, config);
  check_recipe(recipe, layout, config);
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

Graph plan(const Training& run) {
  Graph graph = plan(run.config, run.recipe, run.layout, run.step);
  return run.rewriting == Rewriting::none ? graph : rewritten(std::move(graph));
}

}  // namespace plumb::model
