#include "model/layers/router.hpp"

#include <cmath>

#include "model/layers/gradients.hpp"
#include "model/layers/linear.hpp"

namespace plumb {
namespace {

// The losses are means over the tokens of the step, and over what each expert takes.
double balance_of(const Config& c) {
  const double tokens = c.tokens();
  return c.balance_loss * c.experts / (c.top_k * tokens * tokens * c.micro_batches);
}
double z_of(const Config& c) {
  return c.z_loss / (static_cast<double>(c.tokens()) * c.micro_batches);
}

// Records a loss and adds it to the step's, once.
void take_loss(Rank& rank, const std::string& id, const Tensor& x, const Evaluation& ran) {
  rank.tap(id, x, Held::whole, fp32, ran);
  if (rank.where.recomputing) return;
  Tensor& total = rank.router_losses[id];
  if (total.size() == 0) total = Tensor(1, 1);
  add_to(total, x);
}

// Each sequence-parallel rank has its own tokens' share of both.
void losses(Rank& rank, const std::string& name, const Routed& s) {
  Tensor shares = sum_of_rows(s.own.p);
  Tensor squares(1, 1);
  for (const float lse : s.own.lse.values)
    squares.values[0] = std::fma(lse, lse, squares.values[0]);
  Evaluation ran = rank.in_fp32();
  if (rank.l.sp) {
    rank.mesh.tp.sum(shares.values, fp32);
    rank.mesh.tp.sum(squares.values, fp32);
    ran.parts = rank.where.tp_size;
  }
  Tensor balance(1, 1);
  for (std::size_t e = 0; e < shares.rows; ++e) {
    balance.values[0] = std::fma(s.count.values[e], shares.values[e], balance.values[0]);
  }
  balance.values[0] *= static_cast<float>(balance_of(rank.c));
  squares.values[0] *= static_cast<float>(z_of(rank.c));
  take_loss(rank, name + "/balance_loss", balance, ran);
  take_loss(rank, name + "/z_loss", squares, ran);
}

}  // namespace

Routed router_layer(Rank& rank, const std::string& name, const Tensor& x) {
  const auto k = static_cast<std::size_t>(rank.c.top_k);
  const auto experts = static_cast<std::size_t>(rank.c.experts);
  const Evaluation ran = rank.in_fp32();
  const auto tap = [&](const char* kind, const Tensor& tensor, Held held) {
    rank.tap(name + "/" + kind, tensor, held, fp32, ran);
  };
  const Tensor logits = rank.multiply(view(x), view(rank.weight(name)));
  tap("out", logits, Held::own_tokens);
  Routed s;
  s.x = x;
  s.own = rate_experts(logits, k);
  s.choices = choose_experts(logits, k);
  rank.joints.router.after_choice(rank.at(name), logits, s.choices);
  tap("probabilities", s.own.p, Held::own_tokens);
  tap("margin", s.own.margin, Held::own_tokens);
  tap("lse", s.own.lse, Held::own_tokens);
  tap("routing", s.choices, Held::own_tokens);
  s.p = all_tokens(rank, s.own.p);
  s.all_choices = all_tokens(rank, s.choices);
  s.copies = copies_of(s.all_choices, experts);
  s.count = count_choices(s.choices, experts);
  if (rank.l.sp && rank.joints.router.counts_all_tokens(rank.at(name))) {
    rank.mesh.tp.sum(s.count.values, fp32);  // whole numbers: exact
  }
  tap("count", s.count, Held::whole);
  losses(rank, name, s);
  return s;
}

Tensor router_backward(Rank& rank, const std::string& name, const Routed& s, const Tensor& dp) {
  rank.tap(name + "/probabilities_grad", dp, Held::own_tokens, fp32, rank.in_fp32());
  const float loss_scale = rank.r.loss_scaling ? rank.state.at("loss_scale/scale").values[0] : 1.0F;
  const Tensor d =
      rating_gradient(s.own, dp, s.count, balance_of(rank.c), z_of(rank.c), loss_scale);
  rank.tap(name + "/grad_out", d, Held::own_tokens, fp32, rank.in_fp32());
  Tensor dx = rank.multiply(view(d), view(rank.weight(name), true));
  rank.round(dx);
  rank.tap(name + "/grad_in", dx, Held::own_tokens, rank.r.compute, rank.plain());
  collect_replicated(rank, name + ".weight", rank.multiply(view(s.x, true), view(d)));
  return dx;
}

}  // namespace plumb
