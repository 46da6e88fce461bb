// column_sum: y_j = sum_i x_ij, the gradient of a bias
//
//   inputs     x (T, N)        y (N, 1)
//   evaluate   rows in `parts` slices; each a chain of FP32 additions; parts combined on the wire
#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/column_sums.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  return as_outputs(column_sums(call[0], call.how, call.roundings, call.sums));
}

std::size_t terms(const ToleranceCall& call) { return call[0].rows; }

void dealt_table(RandomCall& c) {
  c.table();
  c.shard_tokens(c.rows);
}

}  // namespace

extern const Operation column_sum{
    .id = "column_sum",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>, 0>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"x", "T", "N"}}, .outputs = {{"y", "N", "1"}}, .dealt = "T"},
    .examples = {.random = dealt_table, .shaped = one_table, .usual = "4096x16"},
    .sums_as_asked = true,
    .terms = terms,
};

}  // namespace plumb::bounds
