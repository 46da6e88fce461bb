#include "model/optimizer.hpp"

#include <cmath>

#include "model/zero.hpp"

namespace plumb {
namespace {

Evaluation over_dp(const Rank& rank) { return {rank.where.dp_size, fp32, fp32}; }

// Records what ZeRO from stage `from` on leaves as shares, and every rank holds whole below.
void tap(Rank& rank, const Parameter& p, const std::string& id, const Tensor& x, int from,
         const Format& format, const Evaluation& ran) {
  if (rank.l.zero < from) return rank.tap_step(id, x, held(p), format, ran);
  rank.tap_share(id, x, p, format);
  rank.record.ran[id] = ran;
}

// The sum over the ranks that hold copies, or this rank's share of it.
Tensor reduced(Rank& rank, const Parameter& p, const std::string& as) {
  Tensor gradient = std::move(rank.main_grad.at(as));
  rank.copies_of(p).sum(gradient.values, fp32);
  if (rank.l.zero >= 2) gradient = own_share(rank, gradient, p);
  const std::string id = (rank.tied(p) && as == p.name ? "embedding.lookup" : as) + "/main_grad";
  tap(rank, p, id, gradient, 2, fp32, {rank.copies_of(p).size(), fp32, fp32});
  return gradient;
}

// A tied matrix has a gradient as embedding on the first stage, one as head on the last: their sum,
// on both.
Tensor tied_gradient(Rank& rank, const Parameter& p) {
  Tensor looked_up, multiplied;
  if (rank.begins()) looked_up = reduced(rank, p, p.name);
  if (rank.ends()) multiplied = reduced(rank, p, "head.weight");
  if (rank.where.pp_size > 1) {
    const int last = rank.where.pp_size - 1, other = rank.begins() ? last : 0;
    rank.mesh.pp.send(other, 0, rank.begins() ? looked_up : multiplied);
    (rank.begins() ? multiplied : looked_up) = rank.mesh.pp.receive(other, 0);
  }
  if (!rank.joints.pipeline.ties_gradients(rank.where)) {
    return rank.begins() ? looked_up : multiplied;
  }
  add_to(looked_up, multiplied);
  return looked_up;
}

void reduce_gradients(Rank& rank) {
  for (const Parameter& p : parameters(rank.c)) {
    if (!rank.holds(p)) continue;
    if (!rank.tied(p)) {
      rank.main_grad[p.name] = reduced(rank, p, p.name);
      continue;
    }
    Tensor gradient = tied_gradient(rank, p);
    tap(rank, p, p.name + "/main_grad", gradient, 2, fp32, rank.in_fp32());
    rank.main_grad[p.name] = std::move(gradient);
  }
}

// The norm of all gradients: slices and shares are summed over the ranks, replicas counted once.
float gradient_norm(Rank& rank) {
  double squares = 0, of_experts = 0;
  for (const Parameter& p : parameters(rank.c)) {
    if (!rank.holds(p)) continue;
    if (p.sharding == Sharding::none && rank.where.tp != 0) continue;
    if (rank.tied(p) && !rank.begins()) continue;
    double own = 0;
    for (const float g : rank.main_grad.at(p.name).values) {
      own += static_cast<double>(g) * static_cast<double>(g);
    }
    (p.expert < 0 ? squares : of_experts) += own;
  }
  if (rank.l.zero >= 2) rank.mesh.dp.sum(squares);
  (rank.l.zero >= 2 ? rank.mesh.dp : rank.mesh.ep).sum(of_experts);
  squares += of_experts;
  rank.mesh.model.sum(squares);
  return static_cast<float>(std::sqrt(squares));
}

void update(Rank& rank, const Parameter& p, float coefficient) {
  Tensor gradient = std::move(rank.main_grad.at(p.name));
  if (rank.l.zero == 1) gradient = own_share(rank, gradient, p);
  for (float& g : gradient.values) g *= coefficient;
  tap(rank, p, p.name + "/clipped_grad", gradient, 1, fp32, rank.in_fp32());
  Tensor& master = rank.state.at(p.name + "/master");
  Tensor& average = rank.state.at(p.name + "/exp_avg");
  Tensor& square = rank.state.at(p.name + "/exp_avg_sq");
  adam_step({rank.c.rate, rank.c.beta1, rank.c.beta2, rank.c.adam_eps, rank.step}, gradient, master,
            average, square);
  Tensor parameter = master;
  rank.round(parameter);
  if (rank.l.zero == 1 || rank.l.zero == 2) parameter = gathered(rank, parameter, p);
  const Evaluation how = rank.plain();
  tap(rank, p, p.name + "/exp_avg", average, 1, fp32, how);
  tap(rank, p, p.name + "/exp_avg_sq", square, 1, fp32, how);
  tap(rank, p, p.name + "/master", master, 1, fp32, how);
  tap(rank, p, p.name + "/param", parameter, 3, rank.r.compute, how);
}

}  // namespace

void finish_step(Rank& rank, Tensor loss) {
  rank.mesh.dp.sum(loss.values, fp32);
  if (rank.ends()) rank.tap_step("loss/out", loss, Held::whole, fp32, over_dp(rank));
  for (auto& [id, total] : rank.router_losses) {
    rank.mesh.dp.sum(total.values, fp32);
    rank.tap_step(id, total, Held::whole, fp32, over_dp(rank));
  }
  reduce_gradients(rank);
  const float norm = gradient_norm(rank);
  const float coefficient = rank.joints.optimizer.clip_coefficient(
      rank.at("clip"), norm, static_cast<float>(rank.c.max_norm));
  rank.tap_step("clip/grad_norm", Tensor(1, 1, norm), Held::whole, fp32, rank.in_fp32());
  rank.tap_step("clip/coefficient", Tensor(1, 1, coefficient), Held::whole, fp32, rank.in_fp32());
  for (const Parameter& p : parameters(rank.c)) {
    if (rank.holds(p)) update(rank, p, coefficient);
  }
}

}  // namespace plumb
