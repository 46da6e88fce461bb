#include "model/step/optimizer.hpp"

#include <cmath>

#include "model/joints/experts.hpp"
#include "model/joints/gradients.hpp"
#include "model/joints/layout.hpp"
#include "model/joints/memory.hpp"
#include "model/joints/optimizer.hpp"
#include "model/layers/operand.hpp"
#include "model/layers/router.hpp"
#include "model/rank/offload.hpp"
#include "model/rank/shares.hpp"
#include "model/spec/ownership.hpp"
#include "model/state/rounding_key.hpp"
#include "model/state/state.hpp"

namespace plumb::model {
namespace {

std::vector<Parameter> trained_here(const Rank& rank) {
  std::vector<Parameter> here = trained(rank.c, rank.step);
  std::erase_if(here, [&](const Parameter& p) { return !rank.holds(p); });
  return here;
}

Evaluation over_dp(const Rank& rank) { return {rank.where.dp_size, fp32, fp32}; }

// Records a tensor that ZeRO keeps in shares from stage `from` on; below, every rank has it whole.
void tap(Rank& rank, const Parameter& p, const std::string& id, Tensor& x, int from,
         const Format& format, const Evaluation& ran) {
  if (rank.l.zero < from) return rank.tap_step(id, x, held_as(rank.l, p), format, ran);
  rank.joints.tensors.made(rank.where, id, x);
  rank.tap_share(id, x, p, format);
  rank.record.ran[id] = ran;
}
// Records one that is not needed any more.
void tap(Rank& rank, const Parameter& p, const std::string& id, Tensor&& x, int from,
         const Format& format, const Evaluation& ran) {
  if (rank.l.zero < from) return rank.tap_step(id, std::move(x), held_as(rank.l, p), format, ran);
  tap(rank, p, id, x, from, format, ran);
}

// Returns the sum over the ranks that hold copies, or this rank's share of it.
Tensor reduced(Rank& rank, const Parameter& p, const std::string& as) {
  Tensor gradient = rank.buckets.take(as);
  rank.joints.gradients.summed(rank.at(as), gradient);
  const float factor = rank.joints.gradients.factor(rank.at(as));
  if (factor != 1) {
    for (float& g : gradient.values) g *= factor;
  }
  if (rank.l.zero >= 2) gradient = own_share(rank, gradient, p);
  const std::string id =
      (rank.on_both_ends(p) && as == p.name ? "embedding.lookup" : as) + "/main_grad";
  tap(rank, p, id, gradient, 2, fp32, {rank.copies_of(p.name).size(), fp32, fp32});
  return gradient;
}

// Sends the other stage the sum of this one's gradient, or what a joint has it send instead.
void send_gradient(Rank& rank, const Parameter& p, const std::string& as, const Tensor& sum,
                   int other) {
  const auto found = rank.unsummed.find(as);
  if (found == rank.unsummed.end()) return rank.mesh.pp.send(other, 0, sum);
  const Tensor& own = found->second;
  rank.mesh.pp.send(other, 0, rank.l.zero >= 2 ? own_share(rank, own, p) : own);
}

// Returns the gradient of a matrix on both ends, on both: the sum of its gradients as embedding on
// the first stage and as head on the last.
Tensor tied_gradient(Rank& rank, const Parameter& p) {
  Tensor looked_up, multiplied;
  if (rank.begins()) looked_up = reduced(rank, p, p.name);
  if (rank.ends()) multiplied = reduced(rank, p, rank.gradient_at_end());
  if (rank.where.pp_size > 1) {
    const int last = rank.where.pp_size - 1, other = rank.begins() ? last : 0;
    rank.begins() ? send_gradient(rank, p, p.name, looked_up, other)
                  : send_gradient(rank, p, rank.gradient_at_end(), multiplied, other);
    (rank.begins() ? multiplied : looked_up) = rank.mesh.pp.receive(other, 0);
  }
  if (!rank.joints.pipeline.ties_gradients(rank.where)) {
    return rank.begins() ? looked_up : multiplied;
  }
  add_to(looked_up, multiplied);
  return looked_up;
}

void reduce_gradients(Rank& rank) {
  rank.buckets.close();
  for (const Parameter& p : trained_here(rank)) {
    if (!rank.on_both_ends(p)) {
      rank.reduced[p.name] = reduced(rank, p, p.name);
      continue;
    }
    Tensor gradient = tied_gradient(rank, p);
    tap(rank, p, p.name + "/main_grad", gradient, 2, fp32, rank.in_fp32());
    rank.reduced[p.name] = std::move(gradient);
  }
}

// The norm of all gradients: slices and shares are summed over the ranks, replicas counted once.
float gradient_norm(Rank& rank) {
  const bool shares = rank.l.zero >= 2;
  double squares = 0, of_experts = 0;
  for (const Parameter& p : trained_here(rank)) {
    const bool first = held_as(rank.l, p) != Sharding::whole || rank.where.tp == 0;
    const bool once = !rank.on_both_ends(p) || rank.begins();
    if (shares && rank.replica_of_shares(p.name) > 0) continue;
    if (!rank.joints.optimizer.in_norm(rank.at(p.name), first && once)) continue;
    (p.expert < 0 ? squares : of_experts) += sum_of_squares(rank.reduced.at(p.name).values);
  }
  const auto over = [&](const char* axis) {
    return rank.joints.optimizer.norm_over(rank.at("clip"), axis);
  };
  if (shares && over("dp")) rank.mesh.dp.sum(squares);
  if (over(shares ? "dp" : "ep")) (shares ? rank.mesh.dp : rank.mesh.ep).sum(of_experts);
  squares += of_experts;
  if (over("model")) rank.mesh.model.sum(squares);
  return static_cast<float>(std::sqrt(squares));
}

// Divides the gradients by the loss scale; returns whether one of any rank left the range.
bool unscale(Rank& rank) {
  const float inverse = 1 / rank.state.at("loss_scale/scale")->values[0];
  float bad = 0;
  for (const Parameter& p : trained_here(rank)) {
    Tensor& gradient = rank.reduced.at(p.name);
    for (float& g : gradient.values) {
      if (!std::isfinite(g)) bad = 1;
      g *= inverse;
    }
    tap(rank, p, p.name + "/unscaled_grad", gradient, 2, fp32, rank.in_fp32());
  }
  const bool here = bad != 0;
  rank.mesh.model.max({&bad, 1});
  rank.mesh.dp.max({&bad, 1});
  const bool skips = rank.joints.optimizer.skips(rank.at("loss_scale"), here, bad != 0);
  rank.tap_step("loss_scale/found_inf", Tensor(1, 1, skips ? 1 : 0), Sharding::whole, fp32,
                rank.in_fp32());
  return skips;
}

void next_loss_scale(Rank& rank, bool skipped) {
  float scale = rank.state.at("loss_scale/scale")->values[0];
  float good = rank.state.at("loss_scale/growth")->values[0] + 1;
  if (skipped) {
    scale *= static_cast<float>(Recipe::backoff);
    good = 0;
  } else if (good >= static_cast<float>(Recipe::growth_interval)) {
    const float larger = scale * static_cast<float>(Recipe::growth);
    if (std::isfinite(larger)) scale = larger;
    good = 0;
  }
  rank.tap_step("loss_scale/scale", Tensor(1, 1, scale), Sharding::whole, fp32, rank.in_fp32());
  rank.tap_step("loss_scale/growth", Tensor(1, 1, good), Sharding::whole, fp32, rank.in_fp32());
}

// Does each rank update a share of a parameter that all hold whole?
bool shares_updates(const Rank& rank) { return rank.l.zero == 1 || rank.l.zero == 2; }

// Returns this rank's part of a parameter.
Tensor own_parameter(Rank& rank, const Parameter& p) {
  const Tensor& parameter = *rank.state.at(p.name + "/param");
  return shares_updates(rank) ? own_share(rank, parameter, p) : parameter;
}

// Steps the master by Adam, or this rank's part of the parameter itself.
AdamState adam_step_of(Rank& rank, const Parameter& p, const Tensor& gradient, bool skipped) {
  const Tensor& average = *rank.state.at(p.name + "/exp_avg");
  const Tensor& square = *rank.state.at(p.name + "/exp_avg_sq");
  const bool a_share = !rank.r.masters && shares_updates(rank);
  const Tensor& whole = *rank.state.at(p.name + (rank.r.masters ? "/master" : "/param"));
  const Tensor share = a_share ? own_share(rank, whole, p) : Tensor();
  const Tensor& from = a_share ? share : whole;
  const bool updates = rank.joints.optimizer.updates(rank.at(p.name), rank.l.zero > 0);
  if (skipped || !updates) return {from, average, square};
  const double decay = decays(p) ? fraction(rank.c.weight_decay) : 0;
  return adam_step({rank.c.rate, rank.c.beta1, rank.c.beta2, rank.c.adam_eps, rank.step, decay},
                   gradient, from, average, square);
}

void round_parameter(Rank& rank, const Parameter& p, Tensor& x) {
  if (!rank.r.stochastic_update) return rank.round(x);
  const std::uint64_t key = rounding_key(rank.c, rank.step, p.name + "/param");
  const Tensor slice(local_shape(rank, p).rows, local_shape(rank, p).cols);
  const Placement lies = rank.placed(slice, held_as(rank.l, p));
  if (rank.l.zero == 0) return rank.round_stochastically(x, lies, rank.r.compute, key);
  Shard share = shard_of(rank, x, p, lies, rank.r.compute);
  rank.round_stochastically(share.values, share.placement, rank.r.compute, key);
  const std::size_t skipped = share_of(rank, p, slice.size()).first % slice.cols;
  std::copy_n(share.values.values.begin() + static_cast<std::ptrdiff_t>(skipped), x.size(),
              x.values.begin());
}

void keep_moment(Rank& rank, const Parameter& p, const std::string& kind, Tensor moment) {
  const Format& format = rank.r.moments;
  if (!(format == fp32)) {
    tap(rank, p, p.name + kind + "_unrounded", moment, 1, fp32, rank.in_fp32());
    round_to_format(moment.values, format);
  }
  tap(rank, p, p.name + kind, std::move(moment), 1, format, {1, fp32, format});
}

Tensor clipped(Rank& rank, const Parameter& p, float coefficient) {
  Tensor gradient = std::move(rank.reduced.at(p.name));
  if (rank.l.zero == 1) gradient = own_share(rank, gradient, p);
  const float factor = rank.joints.optimizer.clips_by(rank.at(p.name), coefficient);
  for (float& g : gradient.values) g *= factor;
  tap(rank, p, p.name + "/clipped_grad", gradient, 1, fp32, rank.in_fp32());
  return gradient;
}

// Returns the next parameter, or this rank's share of it.
Tensor updated(Rank& rank, const Parameter& p, const Tensor& gradient, bool skipped) {
  AdamState next = adam_step_of(rank, p, gradient, skipped);
  keep_moment(rank, p, "/exp_avg", std::move(next.average));
  keep_moment(rank, p, "/exp_avg_sq", std::move(next.square));
  Tensor x = std::move(next.master);
  tap(rank, p, p.name + (rank.r.masters ? "/master" : "/updated"), x, 1, fp32, rank.in_fp32());
  round_parameter(rank, p, x);
  return x;
}

void keep_parameter(Rank& rank, const Parameter& p, Tensor x) {
  if (shares_updates(rank)) x = gathered(rank, x, p);
  tap(rank, p, p.name + "/param", std::move(x), 3, rank.r.compute, rank.plain());
}

// Sends gradients to where the optimizer is and brings parameters back: some travel while others
// are worked on.
void update(Rank& rank, float coefficient, bool skipped) {
  const std::vector<Parameter> here = trained_here(rank);
  OptimizerTransfers gradients(rank, Stream::to_host), parameters(rank, Stream::to_device);
  for (const Parameter& p : here) {
    Tensor gradient = clipped(rank, p, coefficient);
    const std::size_t rows = gradient.rows, cols = gradient.cols;
    gradients.send(p.name, std::move(gradient), [=] { return Tensor(rows, cols); });
  }
  for (const Parameter& p : here) {
    Tensor x = updated(rank, p, gradients.take(p.name), skipped);
    parameters.send(p.name, std::move(x), [&] { return own_parameter(rank, p); });
  }
  for (const Parameter& p : here) keep_parameter(rank, p, parameters.take(p.name));
}

// What this step does not train stays as it is.
void keep_others(Rank& rank, bool skipped) {
  std::map<std::string, std::vector<StateEntry>> kept;
  for (StateEntry& entry : state_entries(rank.c, rank.r)) {
    if (entry.like_it) kept[entry.parameter].push_back(std::move(entry));
  }
  for (const Parameter& p : trained_here(rank)) kept.erase(p.name);
  for (const auto& [name, entries] : kept) {
    const Parameter p = parameter_of(rank.c, name);
    if (!rank.holds(p)) continue;
    if (!is_frozen(rank.c, name) && !rank.joints.optimizer.rests(rank.at(name))) {
      const Tensor& moment = *rank.state.at(name + "/exp_avg");
      keep_parameter(rank, p, updated(rank, p, Tensor(moment.rows, moment.cols), skipped));
      continue;
    }
    for (const StateEntry& entry : entries) {
      const int from = entry.id.ends_with("/param") ? 3 : 1;
      tap(rank, p, entry.id, Tensor(*rank.state.at(entry.id)), from, entry.format,
          {1, fp32, entry.format});
    }
  }
}

}  // namespace

void finish_step(Rank& rank, Tensor loss) {
  if (rank.joints.loss.sums_over_batches(rank.at("loss"))) rank.mesh.dp.sum(loss.values, fp32);
  loss.values[0] = rank.joints.loss.reported(rank.at("loss"), loss.values[0]);
  if (rank.ends()) rank.tap_step("loss/out", loss, Sharding::whole, fp32, over_dp(rank));
  for (auto& [id, total] : rank.added_up) {
    const auto& of = rank.joints.router;
    const bool summed = id.ends_with("/count") ? of.counts_all_batches(rank.at(id))
                                               : of.losses_over(rank.at(id), "dp");
    if (summed) rank.mesh.dp.sum(total.values, fp32);
    rank.tap_step(id, total, Sharding::whole, fp32, over_dp(rank));
  }
  reduce_gradients(rank);
  const bool skipped = rank.r.loss_scaling && unscale(rank);
  if (rank.r.loss_scaling) next_loss_scale(rank, skipped);
  const float norm = gradient_norm(rank);
  const float coefficient = rank.joints.optimizer.clip_coefficient(
      rank.at("clip"), norm, static_cast<float>(rank.c.max_norm));
  rank.tap_step("clip/grad_norm", Tensor(1, 1, norm), Sharding::whole, fp32, rank.in_fp32());
  rank.tap_step("clip/coefficient", Tensor(1, 1, coefficient), Sharding::whole, fp32,
                rank.in_fp32());
  update(rank, coefficient, skipped);
  keep_others(rank, skipped);
  keep_histories(rank);
  balance_experts(rank);
}

}  // namespace plumb::model
