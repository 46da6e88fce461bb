#include "model/layers/router.hpp"

#include <cmath>
#include <numeric>

#include "model/joints/experts.hpp"
#include "model/layers/context.hpp"
#include "model/layers/gradients.hpp"
#include "model/layers/linear.hpp"

namespace plumb::model {
namespace {

// The losses are means over the tokens of a micro-batch and over the copies that each expert takes,
// and then over micro-batches.
double balance_of(const Config& c, int m) {
  const double tokens = c.tokens(m);
  return c.balance_loss * c.experts / (c.top_k * tokens * tokens * c.micro_batches);
}
double z_of(const Config& c, int m) {
  return c.z_loss / (static_cast<double>(c.tokens(m)) * c.micro_batches);
}

// Records a micro-batch's result and adds it to the step's, once.
void take(Rank& rank, const std::string& id, const Tensor& x, const Evaluation& ran) {
  rank.tap(id, x, Sharding::whole, fp32, ran);
  rank.add_up(id, x);
}

// Returns the logits with the bias for the choice.
Tensor biased(Rank& rank, const std::string& name, Tensor logits) {
  if (rank.c.balance_bias == 0) return logits;
  const Tensor& bias = *rank.state.at(name + "/bias");
  for (std::size_t t = 0; t < logits.rows; ++t) {
    for (std::size_t e = 0; e < logits.cols; ++e) logits(t, e) += bias.values[e];
  }
  return logits;
}

// Gathers a tensor of all tokens of the micro-batch, of which each rank has some.       // (T, k)
Tensor of_all_tokens(Rank& rank, const Tensor& own) {
  return whole_context(rank, all_tokens(rank, own));
}

// Returns all tokens' choices; those beyond an expert's capacity become no expert's.
Tensor within_limits(Rank& rank, const std::string& name, const Tensor& own) {
  if (rank.c.capacity == 0) return of_all_tokens(rank, own);
  const auto experts = static_cast<std::size_t>(rank.c.experts);
  const auto most = static_cast<std::size_t>(rank.c.most_copies(rank.where.micro_batch));
  if (rank.joints.router.fills_from_all_tokens(rank.at(name))) {
    return within_capacity(of_all_tokens(rank, own), experts, most);
  }
  const std::size_t share =
      most * own.rows / static_cast<std::size_t>(rank.c.tokens(rank.where.micro_batch));
  return of_all_tokens(rank, within_capacity(own, experts, share));
}

// Sums the counts of all ranks' own tokens: whole numbers, so that sums are exact.
void count_all_tokens(Rank& rank, const std::string& name, Tensor& count) {
  const auto sum_over = [&](const char* axis, Communicator& group) {
    if (group.size() > 1 && rank.joints.router.counts_over(rank.at(name), axis)) {
      group.sum(count.values, fp32);
    }
  };
  if (rank.l.sp) sum_over("tp", rank.mesh.tp);
  sum_over("cp", rank.mesh.cp);
}

// Adds both losses; each sequence- or context-parallel rank has its own tokens' share.
void losses(Rank& rank, const std::string& name, const Routed& s) {
  Tensor shares = sum_of_rows(s.own.p);
  Tensor squares(1, 1);
  for (const float lse : s.own.lse.values)
    squares.values[0] = std::fma(lse, lse, squares.values[0]);
  Evaluation ran = rank.in_fp32();
  Communicator& group = !rank.l.sp       ? rank.mesh.cp
                        : rank.l.cp == 1 ? rank.mesh.tp
                                         : rank.mesh.tokens;
  ran.parts = group.size();
  if (group.size() > 1 && rank.joints.router.losses_over(rank.at(name), "tokens")) {
    group.sum(shares.values, fp32);
    group.sum(squares.values, fp32);
  }
  Tensor balance(1, 1);
  for (std::size_t e = 0; e < shares.rows; ++e) {
    balance.values[0] = std::fma(s.count.values[e], shares.values[e], balance.values[0]);
  }
  balance.values[0] *= static_cast<float>(balance_of(rank.c, rank.where.micro_batch));
  squares.values[0] *= static_cast<float>(z_of(rank.c, rank.where.micro_batch));
  take(rank, name + "/balance_loss", balance, ran);
  take(rank, name + "/z_loss", squares, ran);
}

}  // namespace

Routed router_layer(Rank& rank, const std::string& name, const Tensor& x) {
  const auto k = static_cast<std::size_t>(rank.c.top_k);
  const auto experts = static_cast<std::size_t>(rank.c.experts);
  const Evaluation ran = rank.in_fp32();
  const auto tap = [&](const char* kind, const Tensor& tensor, Sharding sharding) {
    rank.tap(name + "/" + kind, tensor, sharding, fp32, ran);
  };
  const Tensor logits = rank.multiply(view(x), view(rank.weight(name)));
  tap("out", logits, Sharding::own_tokens);
  Routed s;
  s.x = x;
  const Tensor ratings = biased(rank, name, logits);
  s.own = rate_experts(logits, ratings, k);
  s.choices = choose_experts(ratings, k);
  rank.joints.router.after_choice(rank.at(name), logits, s.choices);
  tap("probabilities", s.own.p, Sharding::own_tokens);
  tap("margin", s.own.margin, Sharding::own_tokens);
  tap("lse", s.own.lse, Sharding::own_tokens);
  tap("routing", s.choices, Sharding::own_tokens);
  s.p = all_tokens(rank, s.own.p);
  s.count = count_choices(s.choices, experts);
  s.all_choices = within_limits(rank, name, s.choices);
  s.context_choices = own_context(rank, s.all_choices);
  s.copies = copies_of(
      rank.l.whole_experts ? rank.own_tokens(s.context_choices) : s.context_choices, experts);
  if (rank.c.capacity > 0) {
    s.choices = rank.own_tokens(s.context_choices);
    tap("kept", s.choices, Sharding::own_tokens);
  }
  count_all_tokens(rank, name, s.count);
  if (rank.c.balance_bias > 0) {
    take(rank, name + "/count", s.count, ran);
  } else {
    tap("count", s.count, Sharding::whole);
  }
  losses(rank, name, s);
  return s;
}

void balance_experts(Rank& rank) {
  for (const auto& [id, count] : rank.added_up) {
    if (!id.ends_with("/count")) continue;
    const std::string router = id.substr(0, id.rfind('/'));
    Tensor bias = *rank.state.at(router + "/bias");
    const double all = std::accumulate(count.values.begin(), count.values.end(), 0.0);
    const auto rate = static_cast<float>(fraction(rank.c.balance_bias));
    for (std::size_t e = 0; e < bias.rows; ++e) {
      const double n = static_cast<double>(count.values[e]) * rank.c.experts;
      if (n < all) bias.values[e] += rate;
      if (n > all) bias.values[e] -= rate;
    }
    rank.tap_step(router + "/bias", std::move(bias), Sharding::whole, fp32, rank.in_fp32());
  }
}

Tensor router_backward(Rank& rank, const std::string& name, const Routed& s, const Tensor& dp) {
  rank.tap(name + "/probabilities_grad", dp, Sharding::own_tokens, fp32, rank.in_fp32());
  const float loss_scale =
      rank.r.loss_scaling ? rank.state.at("loss_scale/scale")->values[0] : 1.0F;
  const auto weight = [&](std::string_view loss, double promised) {
    return promised * rank.joints.router.loss_factor(rank.at(name), loss);
  };
  Tensor d = rating_gradient(s.own, dp, s.count,
                             weight("balance", balance_of(rank.c, rank.where.micro_batch)),
                             weight("z", z_of(rank.c, rank.where.micro_batch)), loss_scale);
  rank.tap(name + "/grad_out", d, Sharding::own_tokens, fp32, rank.in_fp32());
  Tensor dx = rank.multiply(view(d), view(rank.weight(name), true));
  rank.round(dx);
  rank.tap(name + "/grad_in", dx, Sharding::own_tokens, rank.r.compute, rank.plain());
  collect_replicated(rank, name + ".weight", rank.multiply(view(s.x, true), view(d)));
  return dx;
}

}  // namespace plumb::model
