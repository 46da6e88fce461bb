// dispatch: each expert's rows, below one another: copies of the tokens that chose it
//
//   inputs       x (T, D), ids (T, k)                outputs   rows (T k, D), by expert, then token
//   attributes   experts
//   evaluate     copies: exact in every layout; zeros where a copy was dropped
// dispatch_grad: dx_t = sum_j drows of token t's copy in slot j
//   inputs       drows (T k, D), ids (T, k)            outputs   dx (T, D)
//   evaluate     slots added in their order in FP32; one rounding to the output format
#include "bounds/examples/routed.hpp"
#include "bounds/operations/routing.hpp"
#include "bounds/sum.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> forward(const Call<T>& call) {
  const Matrix<T>& x = call[0];
  const Routing routing = routing_of(call[1], call.count("experts"));
  Matrix<T> rows(routing.rows.size(), x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t j = 0; j < routing.slots; ++j) {
      if (!routing.dropped(t, j)) std::copy_n(x.row(t), x.cols, rows.row(routing.row(t, j)));
    }
  }
  return as_outputs(std::move(rows));
}

template <class T>
std::vector<Matrix<T>> grad(const Call<T>& call) {
  const Matrix<T>& rows = call[0];
  const Routing routing = routing_of(call[1], call.count("experts"));
  SumTable<T> sums(call[1].rows, rows.cols, call.sums);
  for (std::size_t t = 0; t < call[1].rows; ++t) {
    for (std::size_t j = 0; j < routing.slots; ++j) {
      if (routing.dropped(t, j)) continue;
      const T* row = rows.row(routing.row(t, j));
      for (std::size_t d = 0; d < rows.cols; ++d) sums.add(t, d, row[d]);
    }
  }
  Matrix<T> dx = std::move(sums).totals();
  call.roundings.round(dx, call.how.output);
  return as_outputs(std::move(dx));
}

}  // namespace

extern const Operation dispatch{
    .id = "dispatch",
    .evaluate = forward<float>,
    .value = forward<double>,
    .truth = forward<BigFloat>,
    .tolerance = tolerance_by<forward<RunningError>, forward<ErrorMoments>>,
    .sums = SumOrder::none,
    .traits = {.exact = true},
    .schema = {.inputs = {{"x", "T", "D"}, {"ids", "T", "k"}},
               .outputs = {{"rows", "T k", "D"}},
               .attributes = {count("experts")}},
    .examples = {.random = [](RandomCall& c) { routed(c, {.inputs = "xi"}); },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "xi"}); },
                 .usual = "256x64"},
};
extern const Operation dispatch_grad{
    .id = "dispatch_grad",
    .evaluate = grad<float>,
    .value = grad<double>,
    .truth = grad<BigFloat>,
    .tolerance = tolerance_by<grad<RunningError>, grad<ErrorMoments>, 0>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"drows", "T k", "D"}, {"ids", "T", "k"}},
               .outputs = {{"dx", "T", "D"}},
               .attributes = {count("experts")}},
    .examples = {.random = [](RandomCall& c) { routed(c, {.inputs = "ri"}); },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "ri"}); },
                 .usual = "256x64"},
    .sums_as_asked = true,
};

}  // namespace plumb::bounds
