// unscale: gradients of a scaled loss, times 1 / scale
//
//   inputs      s (1, 1), g_0, g_1, ... (each N, M)     outputs   y_0, y_1, ... and f (1, 1)
//   evaluate    1 / s and each product rounded to FP32, one rounding to the output format; f is 1
//               where any g is an infinity or a NaN (the step is to be left out), else 0
//   tolerance   powers of two cost nothing, unless a product underflows; infinities and NaNs are
//               refused: there is nothing to bound in a step that is left out
#include <cmath>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

bool finite(float x) { return std::isfinite(x); }
bool finite(double x) { return std::isfinite(x); }
template <class T>
bool finite(const T&) {  // the inputs of bounds and truths were looked at before
  return true;
}

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  const T inverse = with_named_error(T(1) / call[0].values[0]);
  bool all_finite = true;
  std::vector<Matrix<T>> outputs;
  for (std::size_t i = 1; i < call.inputs.size(); ++i) {
    Matrix<T> y = call[i];
    for (T& x : y.values) {
      all_finite = all_finite && finite(x);
      x *= inverse;
    }
    call.roundings.round(y, call.how.output);
    outputs.push_back(std::move(y));
  }
  outputs.emplace_back(1, 1, all_finite ? T(0) : T(1));
  return outputs;
}

void random(RandomCall& c) {
  c.add(c.draw.coin() ? Matrix<double>(1, 1, 65536) : c.draw.moderate(1, 1, 100, 1000));
  for (std::size_t i = c.draw.between(1, 3); i > 0; --i) c.table();
}
void shaped(Maker& m) {
  m.filled(1, 1, 65536);
  m.table();
}

}  // namespace

extern const Operation unscale{
    .id = "unscale",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>,
    .sums = SumOrder::none,
    .traits = {.says_left_out = true},
    .schema = {.inputs = {{"s", "1", "1"}, repeated({"g", "*", "*"})},
               .outputs = {repeated({"y", "*", "*"}), {"f", "1", "1"}}},
    .examples = {.random = random, .shaped = shaped},
};

}  // namespace plumb::bounds
