// amax_history: the largest magnitudes of a tensor in the last steps, one step later
//
//   inputs   h (N, 1), the latest first; x_0, x_1, ...: the tensor in each micro-batch of this step
//   outputs   h' (N, 1): max |x_i|, h_0, h_1, ... h_N-2; what is not finite does not count
//   tolerance  0: nothing is rounded
#include <cmath>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

double size_of(float x) { return std::fabs(static_cast<double>(x)); }
double size_of(double x) { return std::fabs(x); }
double size_of(const RunningError& x) { return std::fabs(x.value); }
double size_of(const ErrorMoments& x) { return std::fabs(x.held()); }
double size_of(const BigFloat& x) { return std::fabs(static_cast<double>(x)); }

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  double largest = 0;
  for (std::size_t i = 1; i < call.inputs.size(); ++i) {
    for (const T& x : call[i].values) {
      const double size = size_of(x);
      if (std::isfinite(size)) largest = std::max(largest, size);
    }
  }
  Matrix<T> history = call[0];
  for (std::size_t i = history.rows; i-- > 1;) history.values[i] = history.values[i - 1];
  history.values[0] = static_cast<T>(largest);
  return as_outputs(std::move(history));
}

void random(RandomCall& c) {
  c.give(c.draw.between(1, 6), 1);
  for (double& v : c.e.inputs[0].values) v = std::fabs(v);
  for (std::size_t i = c.draw.between(1, 3); i > 0; --i) c.table();
}
// Of two steps.
void shaped(Maker& m) {
  m.filled(2, 1, 1);
  m.table();
}

}  // namespace

extern const Operation amax_history{
    .id = "amax_history",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>,
    .sums = SumOrder::none,
    .traits = {.keeps_history = true, .exact = true},
    .schema = {.inputs = {{"h", "N", "1"}, repeated({"x", "*", "*"})},
               .outputs = {{"h", "N", "1"}}},
    .examples = {.random = random, .shaped = shaped},
};

}  // namespace plumb::bounds
