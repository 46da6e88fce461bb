// squared_relu: y = max(x, 0)^2
//
//   inputs       x (N, M)        y (N, M)
//   evaluate     a comparison, exact, and one product in FP32; one rounding to the output format
//   tolerance    of the product and the rounding; 0 where x is not positive
//
// SOURCES  bounds/SOURCES.md [So21]
#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  Matrix<T> y = call[0];
  for (T& x : y.values) {
    const T positive = with_named_error(T(0) < x ? x : T(0));
    x = positive * positive;
  }
  call.roundings.round(y, call.how.output);
  return as_outputs(std::move(y));
}

}  // namespace

extern const Operation squared_relu{
    .id = "squared_relu",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}}, .outputs = {{"y", "N", "M"}}},
    .examples = {.random = table_to_cube, .shaped = one_table},
};

}  // namespace plumb::bounds
