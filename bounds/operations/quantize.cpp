// quantize: y = cast(x s) / s, the numbers that a tensor scaled to a short format holds
//
//   inputs       x (N, M), s (1, 1) > 0        y (N, M)
//   attributes   saturate (default 0): beyond the largest number the largest number
//   evaluate     x s in FP32, rounded to the output format, divided by s in FP32. A power of two as
//                s leaves the cast as the only error.
//   tolerance    of y against x itself. A number that saturates is off by what it has beyond the
//                largest; without `saturate` it is refused: pick s from the largest |x|.
#include <algorithm>
#include <cmath>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
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
  return as_outputs(std::move(y));
}

void random(RandomCall& c) {
  c.table();
  double largest = 1e-30;
  for (const double v : c.e.inputs[0].values) largest = std::max(largest, std::fabs(v));
  const double s = 400 / largest;
  const int exponent = std::ilogb(s);
  const double most = std::ldexp(1.0, std::min(exponent, 120));
  const bool power = c.draw.coin() || exponent > 120;
  c.add(Matrix<double>(1, 1, power ? most : static_cast<double>(static_cast<float>(s))));
  c.e.how.output = c.draw.coin() ? e4m3fn : e5m2;
  if (!c.draw.coin()) return;  // else of a larger tensor than this one was scaled for
  c.e.attributes["saturate"] = 1;
  c.e.inputs[1].values[0] *= 4;
}

// Scaled to what E4M3 holds, by a power of two.
void shaped(Maker& m) {
  m.table();
  double largest = 1e-30;
  for (const double x : m.e.inputs[0].values) largest = std::max(largest, std::fabs(x));
  m.filled(1, 1, std::exp2(std::floor(std::log2(448 / largest))));
  m.e.how.output = e4m3fn;
}

}  // namespace

extern const Operation quantize{
    .id = "quantize",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>,
    .sums = SumOrder::none,
    .traits = {.short_copy = true, .scales_output = true, .may_saturate = true},
    .schema = {.inputs = {{"x", "N", "M"}, {"s", "1", "1"}},
               .outputs = {{"y", "N", "M"}},
               .attributes = {or_else(flag("saturate"))}},
    .examples = {.random = random, .shaped = shaped},
};

}  // namespace plumb::bounds
