#include "model/layers/grouped.hpp"

#include "model/joints/layers.hpp"
#include "model/layers/gradients.hpp"

namespace plumb::model {
namespace {

View<float> own_rows(const Grouped& layer, const Tensor& x, std::size_t e) {
  return rows(view(x), layer.begin[e], layer.begin[e + 1]);
}

// X_e W_e, after the joint.                                                     // (N, F)
Tensor forward_product(Rank& rank, const Grouped& layer, const Tensor& x) {
  Tensor y(x.rows, rank.factor(layer.of(0), Product::fprop).cols);
  for (std::size_t e = 0; e < layer.experts(); ++e) {
    const View<float> a = own_rows(layer, x, e), w = view(rank.factor(layer.of(e), Product::fprop));
    Tensor own = rank.multiply(a, w, layer.name(), Product::fprop);
    rank.joints.linear.after_product(rank.at(layer.name()), a, w, own);
    std::copy(own.values.begin(), own.values.end(), y.row(layer.begin[e]));
  }
  return y;
}

void add_biases(Rank& rank, const Grouped& layer, Tensor& y) {
  if (!rank.gpt()) return;
  for (std::size_t e = 0; e < layer.experts(); ++e) {
    const Tensor& bias = rank.bias(layer.of(e));
    for (std::size_t i = layer.begin[e]; i < layer.begin[e + 1]; ++i) {
      for (std::size_t j = 0; j < y.cols; ++j) y(i, j) += bias.values[j];
    }
  }
}

// dX_e = dY_e W_e'                                                              // (N, C)
Tensor backward_product(Rank& rank, const Grouped& layer, const Tensor& d) {
  Tensor dx(d.rows, rank.factor(layer.of(0), Product::dgrad).rows);
  for (std::size_t e = 0; e < layer.experts(); ++e) {
    const View<float> w = view(rank.factor(layer.of(e), Product::dgrad), true);
    const Tensor own = rank.multiply(own_rows(layer, d, e), w, layer.name(), Product::dgrad);
    std::copy(own.values.begin(), own.values.end(), dx.row(layer.begin[e]));
  }
  return dx;
}

// Of an expert that is whole every rank has the part of its own tokens.
void collect_expert(Rank& rank, const std::string& parameter, Tensor gradient, Sharding sharding) {
  if (rank.l.whole_experts) {
    collect_replicated(rank, parameter, std::move(gradient));
  } else {
    collect_slice(rank, parameter, std::move(gradient), sharding);
  }
}

// dW_e = X_e' D_e, and db_e = the sum of dY_e's rows.
void collect_gradients(Rank& rank, const Grouped& layer, const Tensor& x, const Tensor& d,
                       const Tensor& dy, Sharding of_weights, Sharding of_biases) {
  for (std::size_t e = 0; e < layer.experts(); ++e) {
    const std::string name = layer.of(e);
    View<float> own = own_rows(layer, x, e);
    own = {own.data, own.cols, own.rows, own.stride, true};
    collect_expert(rank, name + ".weight",
                   rank.multiply(own, own_rows(layer, d, e), layer.name(), Product::wgrad),
                   of_weights);
    if (!rank.gpt()) continue;
    Tensor sum(dy.cols, 1);
    for (std::size_t i = layer.begin[e]; i < layer.begin[e + 1]; ++i) {
      for (std::size_t j = 0; j < dy.cols; ++j) sum.values[j] += dy(i, j);
    }
    collect_expert(rank, name + ".bias", std::move(sum), of_biases);
  }
}

// Sums the ranks' parts on the wire; all ranks get all rows, unrounded.
void sum_over_ranks(Rank& rank, Tensor& part, const Format& wire, Evaluation& ran) {
  if (rank.where.tp_size == 1 || rank.l.whole_experts) return;
  rank.mesh.tp.sum(part.values, wire);
  ran.parts = rank.where.tp_size;
  ran.wire = wire;
}

}  // namespace

Tensor grouped_columns(Rank& rank, const Grouped& layer, const Operand& x) {
  Tensor y = forward_product(rank, layer, x.by_columns());
  add_biases(rank, layer, y);
  rank.round(y);
  rank.tap(layer.name() + "/out", y, within_experts(rank), rank.r.compute, rank.plain());
  return y;
}

Tensor grouped_columns_backward(Rank& rank, const Grouped& layer, const Operand& x,
                                const Tensor& dy) {
  const std::string name = layer.name();
  const Operand d = gradient_operand(rank, name, dy, within_experts(rank));
  Evaluation ran = rank.plain();
  Tensor dx = backward_product(rank, layer, d.by_columns());
  if (rank.joints.linear.sums_input_gradient(rank.at(name))) {
    sum_over_ranks(rank, dx, rank.r.wire, ran);
  }
  rank.round(dx);
  rank.tap(name + "/grad_in", dx, Sharding::copies, rank.r.compute, ran);
  collect_gradients(rank, layer, x.by_rows(), d.by_rows(), dy, Sharding::columns, Sharding::rows);
  return dx;
}

Tensor grouped_rows(Rank& rank, const Grouped& layer, const Operand& x) {
  Evaluation ran = rank.plain();
  Tensor y = forward_product(rank, layer, x.by_columns());
  const Where where = rank.at(layer.name());
  const bool early = rank.gpt() && rank.joints.row_parallel.bias_before_sum(where);
  if (early) add_biases(rank, layer, y);
  const Format wire = rank.joints.row_parallel.wire(where, rank.r.wire);
  if (rank.joints.row_parallel.sums(where)) sum_over_ranks(rank, y, wire, ran);
  if (!early) add_biases(rank, layer, y);
  rank.round(y);
  rank.tap(layer.name() + "/out", y, Sharding::copies, rank.r.compute, ran);
  return y;
}

Tensor grouped_rows_backward(Rank& rank, const Grouped& layer, const Operand& x, const Tensor& dy) {
  const std::string name = layer.name();
  const Operand d = gradient_operand(rank, name, dy, Sharding::copies);
  Tensor dx = backward_product(rank, layer, d.by_columns());
  rank.round(dx);
  rank.tap(name + "/grad_in", dx, within_experts(rank), rank.r.compute, rank.plain());
  collect_gradients(rank, layer, x.by_rows(), d.by_rows(), dy, Sharding::rows, Sharding::whole);
  return dx;
}

}  // namespace plumb::model
