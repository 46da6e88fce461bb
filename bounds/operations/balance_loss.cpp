// balance_loss: l = balance sum_e n_e sum_t p_te, small where experts take equal shares
//
//   inputs       p (T, E): probabilities, n (E, 1): copies that each expert takes
//   outputs      l (1, 1)
//   attributes   balance: coefficient E / (k T^2), over the micro-batches of a step; [z]: of the
//                loss beside it, not read
//   evaluate     tokens in `parts` slices, each a chain of FP32 additions; parts combined on the
//                wire; then a chain of fused multiply-adds over the experts, and one product, in
//                FP32
//
// SOURCES  bounds/SOURCES.md [Switch]
#include <cmath>

#include "bounds/examples/routed.hpp"
#include "bounds/operations/column_sums.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> balanced(const Call<T>& call) {
  Evaluation in_fp32 = call.how;
  in_fp32.output = fp32;
  const Matrix<T> sums = column_sums(call[0], in_fp32, call.roundings, call.sums);
  Sum<T> loss(call.sums);
  for (std::size_t e = 0; e < sums.rows; ++e) {
    loss.add_product(call[1].values[e], sums.values[e]);
  }
  return as_outputs(Matrix<T>(1, 1, static_cast<T>(call.attribute("balance")) * loss.total()));
}

}  // namespace

extern const Operation balance_loss{
    .id = "balance_loss",
    .evaluate = balanced<float>,
    .value = balanced<double>,
    .truth = balanced<BigFloat>,
    .tolerance = tolerance_by<balanced<RunningError>, balanced<ErrorMoments>, 0>,
    .schema = {.inputs = {{"p", "T", "E"}, {"n", "E", "1"}},
               .outputs = {{"l", "1", "1"}},
               .attributes = {real("balance"), or_else(real("z"))},
               .dealt = "T"},
    .examples = {
        .random =
            [](RandomCall& c) {
              routed(c, {.inputs = "pn", .parted = true, .as_many = true});
              c.shard_tokens(c.e.inputs[0].rows);
            },
        .shaped = [](Maker& m) { routed(m, {.inputs = "pn", .parted = true, .as_many = true}); },
        .usual = "4096x8"},
    .sums_as_asked = true,
};

}  // namespace plumb::bounds
