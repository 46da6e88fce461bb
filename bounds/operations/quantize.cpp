// quantize: y = cast(x s) / s, the numbers that a tensor scaled to a short format holds
//
//   inputs       x (N, M), s (1, 1) > 0        y (N, M)
//   attributes   saturate (default 0): beyond the largest number the largest number
//   evaluate     x s in FP32, rounded to the output format, divided by s in FP32. A power of two as
//                s leaves the cast as the only error.
//   tolerance    of y against x itself. A number that saturates is off by what it has beyond the
//                largest; without `saturate` it is refused: pick s from the largest |x|.
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  const T s = call[1].values[0];
  Matrix<T> y = call[0];
  for (T& x : y.values) x *= s;
  call.roundings.round_as(y, call.how.output, {call.attribute("saturate", 0) != 0, {}});
  for (T& x : y.values) x /= s;
  return {std::move(y)};
}

}  // namespace

extern const Operation quantize{
    .id = "quantize",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<Truth>,
    .tolerance = tolerance_by<evaluate<Near>, evaluate<Moment>>,
    .sums = SumOrder::none,
    .traits = {.short_copy = true, .scales_output = true, .may_saturate = true},
    .schema = {.inputs = {{"x", "N", "M"}, {"s", "1", "1"}},
               .outputs = {{"y", "N", "M"}},
               .attributes = {or_else(flag("saturate"))}},
};

}  // namespace plumb::bounds
