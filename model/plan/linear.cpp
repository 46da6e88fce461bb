#include "model/plan/parts.hpp"

namespace plumb::model {

// y = x W + b                                             (T, F) = (T, C) (C, F) + (F)
std::string linear(Promise& p, const std::string& name, const std::string& x, Sharding sharding) {
  SlicedAxis sliced;
  if (sharding == Sharding::rows)
    sliced = {Sharding::columns, parameter_of(p.c, name + ".weight").rows};
  Ids inputs{input_operand(p, name, x, sliced).by_columns, seen_weight(p, name, Product::fprop)};
  if (has_bias(p.c, name)) inputs.push_back(Promise::bias(name));
  const std::string y = p.at(name, "out");
  p.node("gemm", inputs, {y}, sharding == Sharding::rows ? p.across_tp() : p.plain(),
         summed(p, name, Product::fprop, {{"transpose_a", 0}, {"transpose_b", 0}}));
  return y;
}

// dx = dy W', dW = x' dy, db = sum dy                     (T, C), (C, F), (F)
// Column-parallel: dx is shared; row-parallel: db is, if the tokens of dy are sliced.
std::string linear_grad(Promise& p, const std::string& name, const std::string& x,
                        const std::string& dy, Sharding sharding) {
  const bool columns = sharding == Sharding::columns;
  const bool of_slices = columns || sharding == Sharding::whole;  // all ranks see all tokens of dy
  SlicedAxis sliced;
  if (columns) sliced = {Sharding::columns, parameter_of(p.c, name + ".weight").cols};
  const SeenAs d = gradient_operand(p, name, dy, sliced);
  const std::string dx = p.at(name, "grad_in");
  p.node("gemm", {d.by_columns, seen_weight(p, name, Product::dgrad)}, {dx},
         columns ? p.across_tp() : p.plain(),
         summed(p, name, Product::dgrad, {{"transpose_a", 0}, {"transpose_b", 1}}));
  p.node("gemm", {seen_input(p, name, x).by_rows, d.by_rows}, {p.at(name + ".weight", "wgrad")},
         p.over_contexts(),
         summed(p, name, Product::wgrad, {{"transpose_a", 1}, {"transpose_b", 0}}));
  if (has_bias(p.c, name)) {
    p.node("column_sum", {dy}, {p.at(name + ".bias", "wgrad")},
           of_slices ? p.over_contexts() : p.over_tokens());
  }
  return dx;
}

}  // namespace plumb::model
