#include "model/layers/linear.hpp"

#include <optional>

#include "model/joints/layers.hpp"
#include "model/layers/gradients.hpp"
#include "model/rank/arriving_rows.hpp"
#include "model/rank/parts.hpp"

namespace plumb::model {

Tensor summed_over_ranks(Rank& rank, Tensor part, const Format& wire, Evaluation& ran) {
  if (rank.where.tp_size > 1) {
    rank.mesh.tp.sum(part.values, wire);
    ran.parts = rank.where.tp_size;
    ran.wire = wire;
  }
  return rank.own_tokens(std::move(part));
}

// x W, after the joint.
static Tensor forward_product(Rank& rank, const std::string& name, const Operand& x) {
  const View<float> a = view(x.by_columns()), w = view(rank.factor(name, Product::fprop));
  Tensor y = rank.multiply(a, w, name, Product::fprop);
  rank.joints.linear.after_product(rank.at(name), a, w, y);
  return y;
}

Tensor all_tokens(Rank& rank, Tensor x) {
  if (!rank.l.sp) return x;
  return rank.mesh.tp.gather_rows(x);
}

Operand column_operand(Rank& rank, const std::string& name, Tensor all) {
  if (rank.casts_of(name) == nullptr || rank.joints.linear.takes_cast(rank.at(name), rank.l.sp)) {
    return input_operand(rank, name, std::move(all), Sharding::tokens);
  }
  input_operand(rank, name, all, Sharding::tokens);
  return {std::move(all), {}};
}

// The output of a column-parallel layer, from its product.
static Tensor column_output(Rank& rank, const std::string& name, Tensor y) {
  if (has_bias(rank.c, name)) add_row(y, rank.bias(name).values);
  rank.round(y);
  rank.tap(name + "/out", y, Sharding::token_columns, rank.r.compute, rank.plain());
  return y;
}

Tensor column_forward(Rank& rank, const std::string& name, const Operand& x) {
  return column_output(rank, name, forward_product(rank, name, x));  // (T, F / tp)
}

// The product of rows as they come, this rank's first.                            // (T, F / tp)
static Tensor product_of_rows(Rank& rank, const std::string& name, const Tensor& own,
                              Operand& saved) {
  constexpr int tag = 3;
  const int ranks = rank.where.tp_size;
  const auto n = static_cast<std::size_t>(ranks);
  ArrivingRows gathered(rank, {rank.mesh.tp, Wait::gathered_rows, tag},
                        std::vector(n, std::make_shared<const Tensor>(own)),
                        std::vector(n, own.rows), rank.room_of_rows);
  const View<float> w = view(rank.factor(name, Product::fprop));
  Tensor y(own.rows * n, w.cols, to_be_written);
  for (int step = 0; step < ranks; ++step) {
    const int r = (rank.where.tp + step) % ranks;
    const Tensor part = rank.multiply(gathered.of_rank(r, name), w, name, Product::fprop);
    std::ranges::copy(part.values, y.row(static_cast<std::size_t>(r) * own.rows));
  }
  saved = {gathered.all(), {}};
  rank.joints.linear.after_product(rank.at(name), view(saved.by_columns()), w, y);
  return y;
}

Tensor gathering_column_forward(Rank& rank, const std::string& name, Tensor x, Operand& saved,
                                Tensor& all) {
  if (rank.l.sp && rank.where.tp_size > 1 && rank.streams.on() && rank.casts_of(name) == nullptr) {
    Tensor y = product_of_rows(rank, name, x, saved);
    if (rank.c.adapter > 0) all = saved.by_columns();
    return column_output(rank, name, std::move(y));
  }
  Tensor tokens = all_tokens(rank, std::move(x));
  if (rank.c.adapter > 0) all = tokens;
  saved = column_operand(rank, name, std::move(tokens));
  return column_forward(rank, name, saved);
}

// Records the gradient of a column-parallel layer's input, of this rank's tokens.
static Tensor input_gradient(Rank& rank, const std::string& name, Tensor dx,
                             const Evaluation& ran) {
  rank.round(dx);
  rank.hand_on(name + "/grad_in", dx, Sharding::own_tokens, rank.r.compute, ran);
  return dx;
}

static Tensor summed_input_gradient(Rank& rank, const std::string& name, Tensor part, bool sums) {
  Evaluation ran = rank.plain();
  Tensor dx = sums ? summed_over_ranks(rank, std::move(part), rank.r.wire, ran)
                   : rank.own_tokens(std::move(part));
  return input_gradient(rank, name, std::move(dx), ran);
}

Tensor column_backward(Rank& rank, const std::string& name, const Operand& x, Tensor dy) {
  Tensor d_bias = has_bias(rank.c, name) ? sum_of_rows(dy) : Tensor();
  const Operand d = gradient_operand(rank, name, std::move(dy), Sharding::token_columns);
  Tensor part = rank.multiply(view(d.by_columns()), view(rank.factor(name, Product::dgrad), true),
                              name, Product::dgrad);
  const bool sums = rank.joints.linear.sums_input_gradient(rank.at(name));
  std::optional<SumOfParts> under_way;  // while gradients of parameters are made
  Tensor dx;
  if (sums && rank.streams.on() && rank.where.tp_size > 1) {
    under_way.emplace(rank, std::move(part), rank.r.wire);
  } else {
    dx = summed_input_gradient(rank, name, std::move(part), sums);
  }
  collect_slice(rank, name + ".weight",
                rank.multiply(view(x.by_rows(), true), view(d.by_rows()), name, Product::wgrad),
                Sharding::columns);
  if (has_bias(rank.c, name))
    collect_slice(rank, name + ".bias", std::move(d_bias), Sharding::rows);
  if (!under_way) return dx;
  return input_gradient(rank, name, rank.own_tokens(under_way->take(name)),
                        {rank.where.tp_size, rank.r.wire, rank.r.compute});
}

Tensor whole_forward(Rank& rank, const std::string& name, const Operand& x) {
  Tensor y = rank.own_tokens(forward_product(rank, name, x));
  if (has_bias(rank.c, name)) add_row(y, rank.bias(name).values);
  rank.round(y);
  rank.hand_on(name + "/out", y, Sharding::own_tokens, rank.r.compute, rank.plain());
  return y;
}

Tensor whole_backward(Rank& rank, const std::string& name, const Operand& x, const Tensor& dy) {
  Tensor all = all_tokens(rank, dy);
  Tensor d_bias = has_bias(rank.c, name) ? sum_of_rows(all) : Tensor();
  const Operand d = gradient_operand(rank, name, std::move(all), Sharding::tokens);
  Tensor dx = rank.own_tokens(rank.multiply(
      view(d.by_columns()), view(rank.factor(name, Product::dgrad), true), name, Product::dgrad));
  rank.round(dx);
  rank.hand_on(name + "/grad_in", dx, Sharding::own_tokens, rank.r.compute, rank.plain());
  collect_slice(rank, name + ".weight",
                rank.multiply(view(x.by_rows(), true), view(d.by_rows()), name, Product::wgrad),
                Sharding::whole);
  if (has_bias(rank.c, name))
    collect_slice(rank, name + ".bias", std::move(d_bias), Sharding::whole);
  return dx;
}

Tensor row_forward(Rank& rank, const std::string& name, const Operand& x) {
  Evaluation ran = rank.plain();
  Tensor part = forward_product(rank, name, x);  // (T, D), one summand
  const Where where = rank.at(name);
  const bool early = has_bias(rank.c, name) && rank.joints.row_parallel.bias_before_sum(where);
  if (early) add_row(part, rank.bias(name).values);
  const Format wire = rank.joints.row_parallel.wire(where, rank.r.wire);
  Tensor y = rank.joints.row_parallel.sums(where)
                 ? summed_over_ranks(rank, std::move(part), wire, ran)
                 : rank.own_tokens(std::move(part));
  if (has_bias(rank.c, name) && !early) add_row(y, rank.bias(name).values);
  rank.round(y);
  rank.tap(name + "/out", y, Sharding::own_tokens, rank.r.compute, ran);
  return y;
}

Tensor row_backward(Rank& rank, const std::string& name, const Operand& x, Tensor dy) {
  Tensor d_bias = has_bias(rank.c, name) ? sum_of_rows(dy) : Tensor();
  const Operand d =
      gradient_operand(rank, name, all_tokens(rank, std::move(dy)), Sharding::tokens);  // (T, D)
  Tensor dx = rank.multiply(view(d.by_columns()), view(rank.factor(name, Product::dgrad), true),
                            name, Product::dgrad);
  rank.round(dx);
  rank.tap(name + "/grad_in", dx, Sharding::token_columns, rank.r.compute, rank.plain());
  collect_slice(rank, name + ".weight",
                rank.multiply(view(x.by_rows(), true), view(d.by_rows()), name, Product::wgrad),
                Sharding::rows);
  if (has_bias(rank.c, name)) collect_replicated(rank, name + ".bias", std::move(d_bias));
  return dx;
}

}  // namespace plumb::model
