// softsign: y = x / (1 + |x|)
//
//   inputs       x (N, M)        y (N, M)
//   evaluate     a magnitude, exact, an addition and a quotient in FP32; one rounding to the output
//                format
//   tolerance    of the addition, the quotient and the rounding
#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/tolerance.hpp"

namespace {

using namespace plumb;
using namespace plumb::bounds;

// Written once: over float it is the evaluation, over double the value, over the others the proofs.
template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  Matrix<T> y = call[0];
  for (T& x : y.values) {
    const T magnitude = x < T(0) ? -x : x;
    x = x / (T(1) + magnitude);
  }
  call.roundings.round(y, call.how.output);
  return as_outputs(std::move(y));
}

}  // namespace

extern const Operation softsign{
    .id = "softsign",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}}, .outputs = {{"y", "N", "M"}}},
    .examples = {.random = one_table, .shaped = one_table},
};
