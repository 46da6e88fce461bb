#include "model/plan/parts.hpp"
#include "model/state/rounding_key.hpp"
#include "model/state/state.hpp"

namespace plumb::model {
namespace {

// The sum of a parameter's gradients over all micro-batches.
std::string accumulated(Promise& p, const std::string& wgrad, const std::string& as,
                        const Evaluation& how) {
  Ids parts;
  for (int m = 0; m < p.c.micro_batches; ++m) parts.push_back(Promise::of(m, wgrad, "wgrad"));
  p.node("sum", parts, {as + "/main_grad"}, how);
  return as + "/main_grad";
}

std::string router_of(int layer) { return Promise::layer(layer) + ".mlp.router"; }

// The losses of each router over all micro-batches, and the copies of its experts.
void sums_of_routers(Promise& p) {
  std::vector<std::string> kinds{"balance_loss", "z_loss"};
  if (p.c.balance_bias > 0) kinds.push_back("count");
  for (int n = 0; n < p.c.blocks(); ++n) {
    for (const std::string& kind : kinds) {
      Ids parts;
      for (int m = 0; m < p.c.micro_batches; ++m) {
        parts.push_back(Promise::of(m, router_of(n), kind));
      }
      p.node("sum", parts, {router_of(n) + "/" + kind}, p.over_dp());
    }
  }
}

void balance_experts(Promise& p) {
  if (p.c.experts == 0 || p.c.balance_bias == 0) return;
  for (int n = 0; n < p.c.blocks(); ++n) {
    const std::string router = router_of(n);
    p.node("expert_bias", {router + "/bias@previous", router + "/count"}, {router + "/bias"},
           Promise::in_fp32(), {{"rate", fraction(p.c.balance_bias)}});
  }
}

// Promises the gradients of the unscaled loss, and whether one of them left the range.
void unscale(Promise& p) {
  Ids inputs{"loss_scale/scale@previous"}, outputs, gradients;
  for (const Parameter& each : trained(p.c, p.step)) {
    inputs.push_back(each.name + "/main_grad");
    gradients.push_back(each.name + "/unscaled_grad");
  }
  outputs = gradients;
  outputs.push_back("loss_scale/found_inf");
  p.node("unscale", inputs, outputs, Promise::in_fp32());
  p.node("grad_norm", gradients, {"clip/grad_norm"}, Promise::in_fp32());
  p.node("loss_scale",
         {"loss_scale/scale@previous", "loss_scale/growth@previous", "loss_scale/found_inf"},
         {"loss_scale/scale", "loss_scale/growth"}, Promise::in_fp32(),
         {{"growth", Recipe::growth},
          {"backoff", Recipe::backoff},
          {"interval", Recipe::growth_interval}});
}

// Promises Adam on parameter n, and the state that it keeps.
void update(Promise& p, const std::string& n, const Attributes& adam) {
  const bool wide = p.r.moments == fp32;
  const std::string of_moment = wide ? "" : "_unrounded";
  const std::string before = p.r.masters ? "/master@previous" : "/param@previous";
  const std::string after = n + (p.r.masters ? "/master" : "/updated");
  Ids inputs{n + before, n + "/exp_avg@previous", n + "/exp_avg_sq@previous", n + "/clipped_grad"};
  if (p.r.loss_scaling) inputs.push_back("loss_scale/found_inf");
  p.node("adam", inputs, {n + "/exp_avg" + of_moment, n + "/exp_avg_sq" + of_moment, after},
         Promise::in_fp32(), adam);
  for (const char* moment : {"/exp_avg", "/exp_avg_sq"}) {
    if (!wide) p.node("cast", {n + moment + of_moment}, {n + moment}, {1, fp32, p.r.moments});
  }
  Attributes cast;
  if (p.r.stochastic_update) {
    cast["key"] = static_cast<double>(rounding_key(p.c, p.step, n + "/param"));
  }
  p.node("cast", {after}, {n + "/param"}, p.plain(), cast);
}

// Promises that what a step does not train stays as it is.
void keep_others(Promise& p) {
  for (const StateEntry& kept : state_entries(p.c, p.r)) {
    const bool idle = is_idle(p.c, layer_of(kept.parameter), p.step);
    if (!kept.like_it || !(idle || is_frozen(p.c, kept.parameter))) continue;
    p.node("cast", {kept.id + "@previous"}, {kept.id}, {1, fp32, kept.format});
  }
}

void keep_histories(Promise& p) {
  for (const auto& [id, cast, weight] : delayed_operands(p.c, p.r)) {
    Ids inputs{id + "_history@previous"};
    for (const std::string& x : p.delayed.at(id)) inputs.push_back(x);
    p.node("amax_history", inputs, {id + "_history"}, Promise::in_fp32());
  }
}

}  // namespace

void reduce(Promise& p) {
  Ids all;
  for (const std::string loss : {"loss", "mtp.loss"}) {
    if (p.c.mtp == 0 && loss != "loss") continue;
    Ids losses;
    for (int m = 0; m < p.c.micro_batches; ++m) losses.push_back(Promise::of(m, loss, "out"));
    p.node("sum", losses, {loss + "/out"}, p.over_dp());
  }
  if (p.c.experts > 0) sums_of_routers(p);
  for (const Parameter& each : trained(p.c, p.step)) {
    all.push_back(each.name + "/main_grad");
    if ((p.c.tied() || p.c.mtp > 0) && each.name == "embedding.weight") {
      // On two stages of a pipeline: tied to the head, or looked up by the extra one.
      const std::string of_end = p.c.tied() ? "head.weight" : "mtp.embedding.weight";
      const std::string looked_up = accumulated(p, each.name, "embedding.lookup", p.over_dp());
      const std::string at_end = accumulated(p, of_end, of_end, p.over_dp());
      p.node("add", {looked_up, at_end}, {all.back()}, Promise::in_fp32());
    } else {
      accumulated(p, each.name, each.name, p.over_copies(each));
    }
  }
  if (!p.r.loss_scaling) p.node("grad_norm", all, {"clip/grad_norm"}, Promise::in_fp32());
}

void optimize(Promise& p) {
  if (p.r.loss_scaling) unscale(p);
  p.node("clip", {"clip/grad_norm"}, {"clip/coefficient"}, Promise::in_fp32(),
         {{"max_norm", p.c.max_norm}});
  const Attributes adam{{"lr", p.c.rate},
                        {"beta1", p.c.beta1},
                        {"beta2", p.c.beta2},
                        {"eps", p.c.adam_eps},
                        {"step", p.step}};
  for (const Parameter& each : trained(p.c, p.step)) {
    const std::string& n = each.name;
    const std::string gradient = n + (p.r.loss_scaling ? "/unscaled_grad" : "/main_grad");
    p.node("scale", {gradient, "clip/coefficient"}, {n + "/clipped_grad"}, Promise::in_fp32());
    Attributes its = adam;
    if (p.c.weight_decay > 0 && decays(each)) its["weight_decay"] = fraction(p.c.weight_decay);
    update(p, n, its);
  }
  keep_others(p);
  keep_histories(p);
  balance_experts(p);
}

}  // namespace plumb::model
