// clip: c = min(1, max_norm / (g + 1e-6)), by the global norm
//
//   inputs       g (1, 1)                          outputs   c (1, 1)
//   attributes   max_norm
#include <cmath>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> coefficient(const Call<T>& call) {
  using std::min;
  const T limit = static_cast<T>(call.attribute("max_norm"));
  Matrix<T> c(1, 1, min(T(1), limit / (call[0].values[0] + static_cast<T>(1e-6))));
  call.roundings.round(c, call.how.output);
  return as_outputs(std::move(c));
}

void random_clip(RandomCall& c) {
  const double norm = std::fabs(c.draw.normal()) * 2 + 1e-3;
  c.e.attributes = {{"max_norm", 1}};
  c.add(Matrix<double>(1, 1, static_cast<double>(static_cast<float>(norm))));
}

// A norm above max_norm.
void shaped_clip(Maker& m) {
  m.drawn(1, 1);
  double& norm = m.e.inputs.back().values[0];
  norm = round_to(1 + std::fabs(norm), fp32);
  m.e.attributes = {{"max_norm", 1}};
}

}  // namespace

extern const Operation clip{
    .id = "clip",
    .evaluate = coefficient<float>,
    .value = coefficient<double>,
    .truth = coefficient<BigFloat>,
    .tolerance = tolerance_by<coefficient<RunningError>, coefficient<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"g", "1", "1"}},
               .outputs = {{"c", "1", "1"}},
               .attributes = {real("max_norm")}},
    .examples = {.random = random_clip, .shaped = shaped_clip, .usual = "1x1"},
};

}  // namespace plumb::bounds
