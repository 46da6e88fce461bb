// An operation of one's own: the card in softsign.cpp is in no catalogue. Its evaluation stays
// inside its bound, by FP64 and by 300 bits, on every kind of input that the library's own tests
// draw; the bound is not much wider than the errors; and a kernel that takes a reciprocal of eight
// bits is seen.
#include <cmath>
#include <cstdio>

#include "bounds/examples/example.hpp"
#include "number/rounding.hpp"

extern const plumb::bounds::Operation softsign;

using namespace plumb;
using namespace plumb::bounds;

namespace {

// The kernel that is at fault: x times the reciprocal of 1 + |x|, which it keeps in BF16.
std::vector<Matrix<float>> with_short_reciprocal(const Example& e) {
  Matrix<float> y = converted<float>(e.inputs[0]);
  for (float& x : y.values) {
    const double reciprocal = round_to(1.0 / (1.0F + std::fabs(x)), bf16);
    x = x * static_cast<float>(reciprocal);
  }
  return as_outputs(std::move(y));
}

// Elements that are outside the bound by the truth. FP64 may underflow on the way to a bound:
// nothing is said of what lies below 2^-900.
std::size_t outside_by_truth(const Example& e, const std::vector<Matrix<float>>& outputs) {
  const auto allowed = tolerance_of(e);
  const auto truth = truth_of(e);
  if (!allowed) return outputs[0].size();
  std::size_t outside = 0;
  for (std::size_t i = 0; i < outputs[0].size(); ++i) {
    const double error =
        truth[0].values[i].distance_from(static_cast<double>(outputs[0].values[i]));
    outside += error <= allowed->bound[0].values[i] + 0x1p-900 ? 0 : 1;
  }
  return outside;
}

}  // namespace

int main() {
  Comparison sound, broken;
  std::size_t outside = 0;
  for (const char* kind : input_kinds) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
      Draw draw(kind, seed);
      Example e = example_of(softsign, draw);
      const auto outputs = evaluation_of(e);
      judge(e, outputs, sound);
      outside += outside_by_truth(e, outputs);
      e.how.output = fp32;
      judge(e, with_short_reciprocal(e), broken);
    }
  }
  std::printf(
      "%zu elements: %zu outside, %zu by 300 bits; the largest error is %.3g of its bound\n",
      sound.elements, sound.violations, outside, sound.largest_ratio);
  std::printf("with a reciprocal of eight bits: %zu outside\n", broken.violations);
  const bool holds = sound.refusals == 0 && sound.violations == 0 && outside == 0;
  return holds && sound.largest_ratio > 0.5 && broken.violations > 0 ? 0 : 1;
}
