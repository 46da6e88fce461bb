// scale: y = x c
//
//   inputs       x (N, M), c (1, 1)                outputs   y (N, M)
#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> scaled(const Call<T>& call) {
  const T factor = call[1].values[0];
  Matrix<T> y = call[0];
  for (T& x : y.values) x *= factor;
  call.roundings.round(y, call.how.output);
  return as_outputs(std::move(y));
}

void random_scale(RandomCall& c) {
  c.table();
  c.moderate(1, 1, 1);
}

void shaped_scale(Maker& m) {
  m.table();
  m.filled(1, 1, 0.75);
}

}  // namespace

extern const Operation scale{
    .id = "scale",
    .evaluate = scaled<float>,
    .value = scaled<double>,
    .truth = scaled<BigFloat>,
    .tolerance = tolerance_by<scaled<RunningError>, scaled<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}, {"c", "1", "1"}}, .outputs = {{"y", "N", "M"}}},
    .examples = {.random = random_scale, .shaped = shaped_scale},
};

}  // namespace plumb::bounds
