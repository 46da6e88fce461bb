#include "model/plan/parts.hpp"

namespace plumb {
namespace {

// The sum of a parameter's gradients over all micro-batches.
std::string accumulated(Promise& p, const std::string& wgrad, const std::string& as,
                        const Evaluation& how) {
  Ids parts;
  for (int m = 0; m < p.c.micro_batches; ++m) parts.push_back(Promise::of(m, wgrad, "wgrad"));
  p.node("sum", parts, {as + "/main_grad"}, how);
  return as + "/main_grad";
}

// A loss of each router, over all micro-batches.
void router_losses(Promise& p) {
  for (int n = 0; n < p.c.layers; ++n) {
    const std::string router = Promise::layer(n) + ".mlp.router";
    for (const std::string loss : {"balance_loss", "z_loss"}) {
      Ids parts;
      for (int m = 0; m < p.c.micro_batches; ++m) parts.push_back(Promise::of(m, router, loss));
      p.node("sum", parts, {router + "/" + loss}, p.over_dp());
    }
  }
}

}  // namespace

void reduce(Promise& p) {
  Ids losses, all;
  for (int m = 0; m < p.c.micro_batches; ++m) losses.push_back(Promise::of(m, "loss", "out"));
  p.node("sum", losses, {"loss/out"}, p.over_dp());
  if (p.c.experts > 0) router_losses(p);
  for (const Parameter& each : parameters(p.c)) {
    all.push_back(each.name + "/main_grad");
    if (p.gpt() && each.name == "embedding.weight") {  // tied: on two stages of a pipeline
      const std::string looked_up = accumulated(p, each.name, "embedding.lookup", p.over_dp());
      const std::string multiplied = accumulated(p, "head.weight", "head.weight", p.over_dp());
      p.node("add", {looked_up, multiplied}, {all.back()}, Promise::in_fp32());
    } else {
      accumulated(p, each.name, each.name, p.over_copies(each));
    }
  }
  p.node("grad_norm", all, {"clip/grad_norm"}, Promise::in_fp32());
}

void optimize(Promise& p) {
  p.node("clip", {"clip/grad_norm"}, {"clip/coefficient"}, Promise::in_fp32(),
         {{"max_norm", p.c.max_norm}});
  const Attributes adam{{"lr", p.c.rate},
                        {"beta1", p.c.beta1},
                        {"beta2", p.c.beta2},
                        {"eps", p.c.adam_eps},
                        {"step", p.step}};
  for (const Parameter& each : parameters(p.c)) {
    const std::string& n = each.name;
    p.node("scale", {n + "/main_grad", "clip/coefficient"}, {n + "/clipped_grad"},
           Promise::in_fp32());
    p.node("adam",
           {n + "/master@previous", n + "/exp_avg@previous", n + "/exp_avg_sq@previous",
            n + "/clipped_grad"},
           {n + "/exp_avg", n + "/exp_avg_sq", n + "/master", n + "/param"}, p.plain(), adam);
  }
}

}  // namespace plumb
