// tests/support/cards.hpp: machine cards of a few facts, and outputs of other people's kernels held
// against the bounds of a machine.
#pragma once

#include <cmath>
#include <string>

#include "bounds/examples/example.hpp"
#include "bounds/on_machine.hpp"
#include "tests/support/rooms.hpp"

namespace plumb {

inline Machine card(const std::string& facts) {
  return parse_machine("card", R"({"title": "t", "facts": [
    {"name": "accumulator", "value": "fp32", "provenance": "assumed", "source": "test"},
    {"name": "rounding", "value": "nearest_even", "provenance": "assumed", "source": "test"})" +
                                   facts + "]}");
}
inline std::string fact(const std::string& name, const std::string& value) {
  return R"(, {"name": ")" + name + R"(", "value": ")" + value +
         R"(", "provenance": "assumed", "source": "test"})";
}

// The largest error of outputs over the bound on a machine.
inline double worst_on(const Machine& machine, const Example& e,
                       const std::vector<Matrix<float>>& outputs) {
  const auto values = value_of(e);
  std::vector<const Matrix<double>*> inputs;
  for (const Matrix<double>& input : e.inputs) inputs.push_back(&input);
  const auto t = tolerance_on(machine, e.operation(),
                              {inputs, e.attributes, e.how, Mode::deterministic, 0, values}, fp32);
  if (!t) return 0;  // beyond FP32's range
  double worst = 0;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    for (std::size_t i = 0; i < outputs[o].size(); ++i) {
      const double error =
          std::fabs(static_cast<double>(outputs[o].values[i]) - values[o].values[i]);
      if (!(error <= 0)) worst = std::max(worst, error / t->bound[o].values[i]);
    }
  }
  return worst;
}

}  // namespace plumb
