#include "model/layers/linear.hpp"

#include "model/layers/operand.hpp"
#include "model/layers/replicated.hpp"

namespace plumb {

Tensor summed_over_ranks(Rank& rank, Tensor part, const Format& wire, Evaluation& ran) {
  if (rank.where.tp_size > 1) {
    rank.mesh.tp.sum(part.values, wire);
    ran.parts = rank.where.tp_size;
    ran.wire = wire;
  }
  return rank.own_tokens(part);
}

// x W, as the joint leaves it.
static Tensor forward_product(Rank& rank, const std::string& name, const Tensor& x) {
  const View<float> a = view(x), w = view(rank.factor(name));
  Tensor y = rank.multiply(a, w);
  rank.joints.linear.after_product(rank.at(name), a, w, y);
  return y;
}

Tensor all_tokens(Rank& rank, const Tensor& x) {
  return rank.l.sp ? rank.mesh.tp.gather_rows(x) : x;
}

Tensor column_forward(Rank& rank, const std::string& name, const Tensor& x) {
  Tensor y = forward_product(rank, name, x);  // (T, F / tp)
  if (rank.gpt()) add_row(y, rank.bias(name).values);
  rank.round(y);
  rank.tap(name + "/out", y, Held::columns, rank.r.compute, rank.plain());
  return y;
}

Tensor column_backward(Rank& rank, const std::string& name, const Tensor& x, const Tensor& dy) {
  const Tensor d = operand(rank, name + "/grad_operand", dy, Held::columns, rank.r.grad_operands);
  Evaluation ran = rank.plain();
  Tensor dx = summed_over_ranks(rank, rank.multiply(view(d), view(rank.factor(name), true)),
                                rank.r.wire, ran);
  rank.round(dx);
  rank.tap(name + "/grad_in", dx, rank.stream(), rank.r.compute, ran);
  rank.collect(name + ".weight", rank.multiply(view(x, true), view(d)), Held::columns,
               rank.in_fp32());
  if (rank.gpt()) {
    rank.collect(name + ".bias", sum_of_rows(dy), Held::rows, rank.in_fp32());
  }
  return dx;
}

Tensor row_forward(Rank& rank, const std::string& name, const Tensor& x) {
  Evaluation ran = rank.plain();
  Tensor part = forward_product(rank, name, x);  // (T, D), one summand
  const Where where = rank.at(name);
  const bool early = rank.gpt() && rank.joints.row_parallel.bias_before_sum(where);
  if (early) add_row(part, rank.bias(name).values);
  const Format wire = rank.joints.row_parallel.wire(where, rank.r.wire);
  Tensor y = summed_over_ranks(rank, std::move(part), wire, ran);
  if (rank.gpt() && !early) add_row(y, rank.bias(name).values);
  rank.round(y);
  rank.tap(name + "/out", y, rank.stream(), rank.r.compute, ran);
  return y;
}

Tensor row_backward(Rank& rank, const std::string& name, const Tensor& x, const Tensor& dy) {
  const Tensor d = operand(rank, name + "/grad_operand", all_tokens(rank, dy), Held::whole,
                           rank.r.grad_operands);  // (T, D)
  Tensor dx = rank.multiply(view(d), view(rank.factor(name), true));
  rank.round(dx);
  rank.tap(name + "/grad_in", dx, Held::columns, rank.r.compute, rank.plain());
  rank.collect(name + ".weight", rank.multiply(view(x, true), view(d)), Held::rows, rank.in_fp32());
  if (rank.gpt()) collect_replicated(rank, name + ".bias", sum_of_rows(dy));
  return dx;
}

}  // namespace plumb
