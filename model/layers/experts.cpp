#include "model/layers/experts.hpp"

#include "model/layers/grouped.hpp"
#include "model/layers/linear.hpp"
#include "model/layers/norm.hpp"

namespace plumb {
namespace {

// The first of this rank's tokens of the stream, among all of them.
std::size_t first_token(const Rank& rank) {
  return rank.l.sp ? rank.first(static_cast<std::size_t>(rank.c.tokens())) : 0;
}

}  // namespace

Tensor experts_layer(Rank& rank, const std::string& name, const Tensor& x, Experts& s) {
  s.routed = router_layer(rank, name + ".router", x);
  const Copies& copies = s.routed.copies;
  const std::string of_experts = name + ".experts";
  Tensor rows = copy_tokens(all_tokens(rank, x), copies);
  rank.tap(name + ".dispatch/out", rows, Held::whole, rank.r.compute, rank.plain());
  s.rows = input_operand(rank, of_experts + ".fc1", std::move(rows), Held::whole);
  s.fc1 = grouped_columns(rank, {name, "fc1", copies}, s.rows);
  s.act = input_operand(rank, of_experts + ".fc2",
                        activation(rank, of_experts + ".act", s.fc1, Held::columns), Held::columns);
  s.fc2 = grouped_rows(rank, {name, "fc2", copies}, s.act);
  Tensor y = weigh_rows(s.fc2, copies, s.routed.own.p, s.routed.choices, first_token(rank));
  rank.round(y);
  rank.tap(name + ".combine/out", y, Held::own_tokens, rank.r.compute, rank.plain());
  if (rank.c.shared == 0) return y;
  return residual(rank, name + ".sum/out", y, mlp_layer(rank, name + ".shared", x, s.shared));
}

Tensor experts_backward(Rank& rank, const std::string& name, const Experts& s, const Tensor& dy) {
  const Routed& routed = s.routed;
  const Copies& copies = routed.copies;
  const std::string of_experts = name + ".experts";
  Tensor d_rows = spread_gradient(all_tokens(rank, dy), routed.p, routed.all_choices, copies);
  rank.round(d_rows);
  rank.tap(name + ".combine/grad_in", d_rows, Held::whole, rank.r.compute, rank.plain());
  const Tensor d_act = grouped_rows_backward(rank, {name, "fc2", copies}, s.act, d_rows);
  const Tensor d_fc1 = activation_backward(rank, of_experts + ".act", s.fc1, d_act, Held::columns);
  const Tensor d_copies = grouped_columns_backward(rank, {name, "fc1", copies}, s.rows, d_fc1);
  Tensor dx = add_rows(d_copies, copies, first_token(rank), dy.rows);
  rank.round(dx);
  rank.tap(name + ".dispatch/grad_in", dx, Held::own_tokens, rank.r.compute, rank.plain());
  const Tensor dp = weight_gradient(dy, s.fc2, copies, routed.choices,
                                    static_cast<std::size_t>(rank.c.experts), first_token(rank));
  dx = residual(rank, name + ".dispatch.add/grad_out", dx,
                router_backward(rank, name + ".router", routed, dp));
  if (rank.c.shared == 0) return dx;
  return residual(rank, name + ".sum/grad_in", dx,
                  mlp_backward(rank, name + ".shared", s.shared, dy));
}

}  // namespace plumb
