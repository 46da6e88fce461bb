#include "bounds/moments.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace plumb::bounds {

void MomentRoundings::round(Matrix<ErrorMoments>& x, const Format& to) {
  if (to == fp32 || to == fp64) return;  // a float already
  for (ErrorMoments& value : x.values) value.rounded(to);
}

void MomentRoundings::round_as(Matrix<ErrorMoments>& x, const Format& to, const TensorCast& cast) {
  if (to == fp32 || to == fp64) return;
  for (ErrorMoments& value : x.values) {
    if (cast.saturate) value.saturated(to.largest());
    cast.key ? value.rounded_stochastically(to) : value.rounded(to);
  }
}

Matrix<ErrorMoments> moments_of_input(const Matrix<double>& x) {
  Matrix<ErrorMoments> m(x.rows, x.cols);
  std::transform(x.values.begin(), x.values.end(), m.values.begin(), ErrorMoments::input);
  return m;
}

Outcome<Tolerance> moments_of(const std::vector<Matrix<ErrorMoments>>& outputs,
                              const ToleranceCall& call) {
  Tolerance tolerance{Mode::moments, 0, {}, {}, {}};
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const Matrix<ErrorMoments>& y = outputs[o];
    if (call.values.size() != outputs.size() || call.values[o].size() != y.size()) {
      throw std::invalid_argument("a tolerance needs the values of the same call");
    }
    Matrix<double> deviation(y.rows, y.cols), bias(y.rows, y.cols);
    for (std::size_t e = 0; e < y.size(); ++e) {
      const ErrorMoments& m = y.values[e];
      deviation.values[e] = std::sqrt(m.variance());
      bias.values[e] =
          term<"moments.bias">(m.bias) + term<"moments.judge">(m.value - call.values[o].values[e]);
      if (!std::isfinite(deviation.values[e]) || !std::isfinite(bias.values[e])) {
        return Refusal{Why::may_overflow, "element " + std::to_string(e) + " of output " +
                                              std::to_string(o) + ", about " +
                                              std::to_string(m.value) +
                                              ", or a step to it is likely to leave its format's "
                                              "range"};
      }
    }
    const auto largest = [](const Matrix<double>& x) {
      double most = 0;
      for (const double v : x.values) most = std::max(most, std::fabs(v));
      return most;
    };
    const bool asked = call.explained && call.explained->output == o;
    tolerance.terms.push_back(
        {{"roundings", "root of the sum of (sensitivity x deviation)^2 over roundings",
          asked ? deviation.values.at(call.explained->element) : largest(deviation)}});
    tolerance.bound.push_back(std::move(deviation));
    tolerance.bias.push_back(std::move(bias));
  }
  return tolerance;
}

Outcome<Tolerance> moments_by_evaluation(const ToleranceCall& call, MomentEvaluation evaluate) {
  std::vector<Matrix<ErrorMoments>> inputs;
  std::vector<const Matrix<ErrorMoments>*> pointers;
  inputs.reserve(call.inputs.size());
  for (const Matrix<double>* input : call.inputs) inputs.push_back(moments_of_input(*input));
  for (const Matrix<ErrorMoments>& input : inputs) pointers.push_back(&input);
  MomentRoundings roundings;
  return moments_of(
      evaluate({pointers, call.attributes, call.how, roundings, call.sums, call.form}), call);
}

}  // namespace plumb::bounds
