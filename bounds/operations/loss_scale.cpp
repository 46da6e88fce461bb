// loss_scale: the scale of the next step's loss: halved after a step whose gradients were not
// finite, doubled after enough steps that were
//
//   inputs       s (1, 1), g (1, 1): good steps since s last changed, f (1, 1): not 0 after a bad
//                step
//   outputs      s', g'
//   attributes   growth, backoff, interval (good steps to a growth)
//   evaluate     s times a factor in FP32; growth that would leave FP32's range is left out
//   tolerance    0 for powers of two
#include <cmath>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  T scale = call[0].values[0], good = call[1].values[0];
  const T most = static_cast<T>(fp32.largest() / call.attribute("growth"));
  const T interval = static_cast<T>(call.attribute("interval"));
  if (T(0) < call[2].values[0]) {
    scale *= static_cast<T>(call.attribute("backoff"));
    good = T(0);
  } else {
    good += T(1);
    if (!(good < interval)) {
      if (scale < most) scale *= static_cast<T>(call.attribute("growth"));
      good = T(0);
    }
  }
  std::vector<Matrix<T>> outputs = as_outputs(Matrix<T>(1, 1, scale));
  outputs.emplace_back(1, 1, good);
  return outputs;
}

void random(RandomCall& c) {
  c.e.attributes = {{"growth", 2}, {"backoff", 0.5}, {"interval", 3}};
  c.e.inputs = {Matrix<double>(1, 1, std::exp2(c.draw.between(0, 126))),
                Matrix<double>(1, 1, c.whole(0, 2)), Matrix<double>(1, 1, c.draw.coin())};
}
// The last step before the scale grows.
void shaped(Maker& m) {
  for (const double x : {65536, 1999, 0}) m.filled(1, 1, x);
  m.e.attributes = {{"growth", 2}, {"backoff", 0.5}, {"interval", 2000}};
}

}  // namespace

extern const Operation loss_scale{
    .id = "loss_scale",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"s", "1", "1"}, {"g", "1", "1"}, {"f", "1", "1"}},
               .outputs = {{"s", "1", "1"}, {"g", "1", "1"}},
               .attributes = {real("growth"), real("backoff"), real("interval")}},
    .examples = {.random = random, .shaped = shaped, .usual = "1x1"},
};

}  // namespace plumb::bounds
