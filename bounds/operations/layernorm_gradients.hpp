// bounds/operations/layernorm_gradients.hpp: what the gradients of a layer norm share: formulas and
// moments.
//
//   inputs       x (T, D), w (D, 1), dy (T, D)
//   attributes   eps
//   forms        mu and r in two passes, in one, or by Welford's updates; each plain or folded, as
//                the operation says. The bound of a folded formula covers the plain one.
//                stored: mu and r are kept in the output's format between forward and backward, and
//                so is each sum over tokens when a token is added [PyTorch-LayerNorm]. In FP32
//                nothing is lost by that.
//
// SOURCES  theory.md N3, D7; bounds/SOURCES.md [CGL83] [PyTorch-LayerNorm]
// TESTED   tests/bounds/stored_forms_test.cpp, tests/bounds/forms_test.cpp
#pragma once

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/layernorm_moments.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

inline constexpr List<Form> layernorm_gradient_forms{
    {"two_pass", true}, {"two_pass_folded"}, {"one_pass", true},     {"one_pass_folded"},
    {"welford", true},  {"welford_folded"},  {"stored", false, true}};
inline constexpr std::size_t stored = 6;

inline bool folds(std::size_t form) { return form == stored || form % 2 == 1; }

template <class T>
Moments<T> moments_in(const Call<T>& call, std::size_t row) {
  const auto of = moments_by(call);
  Moments<T> m = of(call[0].row(row), call[0].cols, call.attribute("eps"), call.sums);
  if (call.form != stored || call.how.output == fp32) return m;
  return {kept_as(m.mean, call.how.output), kept_as(m.inverse_deviation, call.how.output)};
}

// A bound is the larger of both.
template <class T>
T of_either(bool folded, const T& plain, const T& other) {
  if constexpr (std::is_same_v<T, RunningError>) {
    if (folded && plain.worst() > other.worst()) return plain;
  }
  return folded ? other : plain;
}

inline void random_norm_gradient(RandomCall& c) {
  c.e.attributes = {{"eps", 1e-5}};
  c.table();
  c.moderate(c.cols, 1, 0.3, 1);
  c.table();
}
inline void shaped_norm_gradient(Maker& m) {
  m.e.attributes = {{"eps", 1e-5}};
  m.table();
  m.weights(m.cols);
  m.table();
}

}  // namespace plumb::bounds
