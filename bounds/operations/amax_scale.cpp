// amax_scale: s, the largest power of two with max|x| s <= largest: the scale of a tensor to a
// format
//
//   inputs   x (N, M)        s (1, 1)        attributes   largest (of the format, > 0)
//   evaluate   comparisons and exponents of FP32 numbers. s = 1 where x is zero or not finite; at
//              most 2^126, so that x s and 1 / s are normal.
//   tolerance  0: of the same x every correct evaluation gives the same bits.
#include <bit>
#include <cmath>
#include <cstdint>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

float nearest(float x) { return x; }
float nearest(double x) { return static_cast<float>(x); }
float nearest(const RunningError& x) { return static_cast<float>(x.value); }
float nearest(const ErrorMoments& x) { return static_cast<float>(x.held()); }
float nearest(const BigFloat& x) { return static_cast<float>(static_cast<double>(x)); }

float power(float amax, double largest) {
  if (amax == 0 || !std::isfinite(amax)) return 1;
  int of_amax = 0, of_largest = 0;
  const double m = std::frexp(static_cast<double>(amax), &of_amax);
  const double l = std::frexp(largest, &of_largest);
  return std::ldexp(1.0F, std::min(of_largest - of_amax - (m > l ? 1 : 0), 126));
}

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  std::uint32_t amax = 0;  // magnitudes are in the order of their bits, NaN above all
  for (const T& x : call[0].values) {
    amax = std::max(amax, std::bit_cast<std::uint32_t>(nearest(x)) & 0x7fffffffU);
  }
  return {Matrix<T>(1, 1, T(power(std::bit_cast<float>(amax), call.attribute("largest"))))};
}

void random(RandomCall& c) {
  c.table();
  c.e.attributes = {{"largest", c.draw.coin() ? e4m3fn.largest() : e5m2.largest()}};
}
void shaped(Maker& m) {
  m.table();
  m.e.attributes = {{"largest", e4m3fn.largest()}};
}

}  // namespace

extern const Operation amax_scale{
    .id = "amax_scale",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>,
    .sums = SumOrder::none,
    .traits = {.makes_scales = true, .exact = true},
    .schema = {.inputs = {{"x", "N", "M"}},
               .outputs = {{"s", "1", "1"}},
               .attributes = {real("largest")}},
    .examples = {.random = random, .shaped = shaped},
};

}  // namespace plumb::bounds
