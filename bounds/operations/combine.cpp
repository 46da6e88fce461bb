// combine: y_t = sum_j p_te o_r,  e the expert in slot j of token t, r the row of that copy. Sums
// run over copies that were not dropped, here and below: what dropped ones would have is 0
//
//   inputs       o (T k, D): rows of dispatch, p (T, E): probabilities, ids (T, k)
//   outputs      y (T, D)
//   evaluate     a chain of FP32 fused multiply-adds from slot to slot; one rounding to the output
//                format
// combine_grad: do_r = p_te dy_t
//   inputs       dy (T, D), p, ids                     outputs   do (T k, D)
//   evaluate     one product, one rounding to the output format
// combine_weight_grad: dp_te = sum_d dy_td o_rd, 0 for experts that were not chosen
//   inputs       dy (T, D), o (T k, D), ids            outputs   dp (T, E)
//   attributes   experts: E
//   evaluate     a chain of FP32 fused multiply-adds along d
#include <cmath>

#include "bounds/examples/routed.hpp"
#include "bounds/operations/routing.hpp"
#include "bounds/sum.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> forward(const Call<T>& call) {
  const Matrix<T>& o = call[0];
  const Matrix<T>& p = call[1];
  const Matrix<T>& ids = call[2];
  const Routing routing = routing_of(ids, p.cols);
  SumTable<T> sums(p.rows, o.cols, call.sums);
  for (std::size_t t = 0; t < p.rows; ++t) {
    for (std::size_t j = 0; j < routing.slots; ++j) {
      if (routing.dropped(t, j)) continue;
      const T& weight = p(t, expert_of(ids(t, j), p.cols));
      const T* row = o.row(routing.row(t, j));
      for (std::size_t d = 0; d < o.cols; ++d) sums.add_product(t, d, weight, row[d]);
    }
  }
  Matrix<T> y = std::move(sums).totals();
  call.roundings.round(y, call.how.output);
  return as_outputs(std::move(y));
}

template <class T>
std::vector<Matrix<T>> grad(const Call<T>& call) {
  const Matrix<T>& dy = call[0];
  const Matrix<T>& p = call[1];
  const Matrix<T>& ids = call[2];
  const Routing routing = routing_of(ids, p.cols);
  Matrix<T> d_o(routing.rows.size(), dy.cols);
  for (std::size_t t = 0; t < dy.rows; ++t) {
    for (std::size_t j = 0; j < routing.slots; ++j) {
      if (routing.dropped(t, j)) continue;
      const T& weight = p(t, expert_of(ids(t, j), p.cols));
      T* row = d_o.row(routing.row(t, j));
      for (std::size_t d = 0; d < dy.cols; ++d) row[d] = weight * dy(t, d);
    }
  }
  call.roundings.round(d_o, call.how.output);
  return as_outputs(std::move(d_o));
}

template <class T>
std::vector<Matrix<T>> weight_grad(const Call<T>& call) {
  const Matrix<T>& dy = call[0];
  const Matrix<T>& o = call[1];
  const Matrix<T>& ids = call[2];
  const std::size_t experts = call.count("experts");
  const Routing routing = routing_of(ids, experts);
  Matrix<T> dp(dy.rows, experts);
  for (std::size_t t = 0; t < dy.rows; ++t) {
    for (std::size_t j = 0; j < routing.slots; ++j) {
      if (routing.dropped(t, j)) continue;
      const T* row = o.row(routing.row(t, j));
      Sum<T> along(call.sums);
      for (std::size_t d = 0; d < dy.cols; ++d) along.add_product(dy(t, d), row[d]);
      dp(t, expert_of(ids(t, j), experts)) = along.total();
    }
  }
  call.roundings.round(dp, call.how.output);
  return as_outputs(std::move(dp));
}

}  // namespace

extern const Operation combine{
    .id = "combine",
    .evaluate = forward<float>,
    .value = forward<double>,
    .truth = forward<BigFloat>,
    .tolerance = tolerance_by<forward<RunningError>, forward<ErrorMoments>, 0>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"o", "T k", "D"}, {"p", "T", "E"}, {"ids", "T", "k"}},
               .outputs = {{"y", "T", "D"}}},
    .examples = {.random = [](RandomCall& c) { routed(c, {.inputs = "rpi"}); },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "rpi"}); },
                 .usual = "256x64"},
    .sums_as_asked = true,
};
extern const Operation combine_grad{
    .id = "combine_grad",
    .evaluate = grad<float>,
    .value = grad<double>,
    .truth = grad<BigFloat>,
    .tolerance = tolerance_by<grad<RunningError>, grad<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"dy", "T", "D"}, {"p", "T", "E"}, {"ids", "T", "k"}},
               .outputs = {{"do", "T k", "D"}}},
    .examples = {.random = [](RandomCall& c) { routed(c, {.inputs = "xpi"}); },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "xpi"}); },
                 .usual = "256x64"},
};
extern const Operation combine_weight_grad{
    .id = "combine_weight_grad",
    .evaluate = weight_grad<float>,
    .value = weight_grad<double>,
    .truth = weight_grad<BigFloat>,
    .tolerance = tolerance_by<weight_grad<RunningError>, weight_grad<ErrorMoments>, 0, 1>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"dy", "T", "D"}, {"o", "T k", "D"}, {"ids", "T", "k"}},
               .outputs = {{"dp", "T", "experts"}},
               .attributes = {count("experts")}},
    .examples = {.random = [](RandomCall& c) { routed(c, {.inputs = "xri"}); },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "xri"}); },
                 .usual = "16x4096"},
    .sums_as_asked = true,
};

}  // namespace plumb::bounds
