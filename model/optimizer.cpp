#include "model/optimizer.hpp"

#include <cmath>

namespace plumb {
namespace {

Held held(const Parameter& p) {
  return p.sharding == Sharding::none   ? Held::whole
         : p.sharding == Sharding::rows ? Held::rows
                                        : Held::columns;
}

Evaluation over_dp(const Rank& rank) { return {rank.where.dp_size, fp32, fp32}; }

void reduce_gradients(Rank& rank) {
  for (const Parameter& p : parameters(rank.c)) {
    Tensor& gradient = rank.main_grad.at(p.name);
    rank.mesh.dp.sum(gradient.values, fp32);
    rank.tap_step(p.name + "/main_grad", gradient, held(p), fp32, over_dp(rank));
  }
}

// The norm of all gradients: slices are summed over the tensor-parallel ranks, replicas counted
// once.
float gradient_norm(Rank& rank) {
  double squares = 0;
  for (const Parameter& p : parameters(rank.c)) {
    if (p.sharding == Sharding::none && rank.where.tp != 0) continue;
    double own = 0;
    for (const float g : rank.main_grad.at(p.name).values) {
      own += static_cast<double>(g) * static_cast<double>(g);
    }
    squares += own;
  }
  rank.mesh.tp.sum(squares);
  return static_cast<float>(std::sqrt(squares));
}

void update(Rank& rank, const Parameter& p, float coefficient) {
  Tensor gradient = rank.main_grad.at(p.name);
  for (float& g : gradient.values) g *= coefficient;
  rank.tap_step(p.name + "/clipped_grad", gradient, held(p), fp32, rank.in_fp32());
  Tensor& master = rank.state.at(p.name + "/master");
  Tensor& average = rank.state.at(p.name + "/exp_avg");
  Tensor& square = rank.state.at(p.name + "/exp_avg_sq");
  adam_step({rank.c.rate, rank.c.beta1, rank.c.beta2, rank.c.adam_eps, rank.step}, gradient, master,
            average, square);
  Tensor parameter = master;
  rank.round(parameter);
  const Evaluation how = rank.plain();
  rank.tap_step(p.name + "/exp_avg", average, held(p), fp32, how);
  rank.tap_step(p.name + "/exp_avg_sq", square, held(p), fp32, how);
  rank.tap_step(p.name + "/master", master, held(p), fp32, how);
  rank.tap_step(p.name + "/param", parameter, held(p), rank.r.compute, how);
}

}  // namespace

void finish_step(Rank& rank, Tensor loss) {
  rank.mesh.dp.sum(loss.values, fp32);
  rank.tap_step("loss/out", loss, Held::whole, fp32, over_dp(rank));
  reduce_gradients(rank);
  const float norm = gradient_norm(rank);
  const float coefficient = rank.joints.optimizer.clip_coefficient(
      rank.at("clip"), norm, static_cast<float>(rank.c.max_norm));
  rank.tap_step("clip/grad_norm", Tensor(1, 1, norm), Held::whole, fp32, rank.in_fp32());
  rank.tap_step("clip/coefficient", Tensor(1, 1, coefficient), Held::whole, fp32, rank.in_fp32());
  for (const Parameter& p : parameters(rank.c)) update(rank, p, coefficient);
}

}  // namespace plumb
