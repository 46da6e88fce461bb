#include "model/layers/adapter.hpp"

#include "model/layers/linear.hpp"
#include "model/layers/norm.hpp"

namespace plumb::model {
namespace {

// a + b, of which every tensor-parallel rank has columns.
Tensor added_columns(Rank& rank, const std::string& id, Tensor a, const Tensor& b) {
  add_to(a, b);
  rank.round(a);
  rank.tap(id, a, Sharding::token_columns, rank.r.compute, rank.plain());
  return a;
}

}  // namespace

Tensor kept_for_adapter(const Rank& rank, const Tensor& x) {
  return rank.c.adapter > 0 ? x : Tensor();
}

Tensor adapted_columns(Rank& rank, const std::string& name, Tensor x, Tensor y, Adapter& s) {
  if (rank.c.adapter == 0) return y;
  const std::string down = name + ".adapter_down", up = name + ".adapter_up";
  s.x = input_operand(rank, down, std::move(x), Sharding::tokens);
  s.low =
      input_operand(rank, up, all_tokens(rank, whole_forward(rank, down, s.x)), Sharding::tokens);
  const Tensor added = column_forward(rank, up, s.low);
  return added_columns(rank, name + ".adapted/out", std::move(y), added);
}

Tensor adapted_columns_backward(Rank& rank, const std::string& name, const Adapter& s, Tensor dy,
                                Tensor dx) {
  if (rank.c.adapter == 0) return dx;
  const Tensor d_low = column_backward(rank, name + ".adapter_up", s.low, std::move(dy));
  return sum_of_two(rank, name + ".adapted/grad_in", dx,
                    whole_backward(rank, name + ".adapter_down", s.x, d_low));
}

Tensor adapted_rows(Rank& rank, const std::string& name, Tensor x, Tensor y, Adapter& s) {
  if (rank.c.adapter == 0) return y;
  const std::string down = name + ".adapter_down", up = name + ".adapter_up";
  s.x = input_operand(rank, down, std::move(x), Sharding::token_columns);
  s.low = input_operand(rank, up, all_tokens(rank, row_forward(rank, down, s.x)), Sharding::tokens);
  return sum_of_two(rank, name + ".adapted/out", y, whole_forward(rank, up, s.low));
}

Tensor adapted_rows_backward(Rank& rank, const std::string& name, const Adapter& s,
                             const Tensor& dy, Tensor dx) {
  if (rank.c.adapter == 0) return dx;
  Tensor d_low = whole_backward(rank, name + ".adapter_up", s.low, dy);
  const Tensor d = row_backward(rank, name + ".adapter_down", s.x, std::move(d_low));
  return added_columns(rank, name + ".adapted/grad_in", std::move(dx), d);
}

}  // namespace plumb::model
