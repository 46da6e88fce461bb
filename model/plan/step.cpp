#include "model/plan/parts.hpp"

namespace plumb {
namespace {

// The gradients of a parameter, in the order in which a rank adds them up. A tied weight collects
// two from each micro-batch: as head, then as embedding.
Ids gradients_of(const Promise& p, const Parameter& parameter, bool tied) {
  Ids parts;
  for (int m = 0; m < p.c.micro_batches; ++m) {
    if (tied) parts.push_back(Promise::of(m, "head.weight", "wgrad"));
    parts.push_back(Promise::of(m, parameter.name, "wgrad"));
  }
  return parts;
}

}  // namespace

void reduce(Promise& p) {
  Ids losses, all;
  for (int m = 0; m < p.c.micro_batches; ++m) losses.push_back(Promise::of(m, "loss", "out"));
  p.node("sum", losses, {"loss/out"}, p.over_dp(), {{"together", 1}});
  for (const Parameter& each : parameters(p.c)) {
    const bool tied = p.gpt() && each.name == "embedding.weight";
    all.push_back(each.name + "/main_grad");
    p.node("sum", gradients_of(p, each, tied), {all.back()}, p.over_dp(),
           {{"together", tied ? 2 : 1}});
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
