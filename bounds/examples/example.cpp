#include "bounds/examples/example.hpp"

#include <algorithm>

#include "bounds/examples/random.hpp"
#include "bounds/proof/term.hpp"

namespace plumb::bounds {
Matrix<double> value_of_softmax(const Matrix<double>& x) {
  ExactRoundings none;
  Matrix<double> p = find_operation("softmax")->value({{&x}, {}, {}, none})[0];
  for (double& v : p.values) v = static_cast<double>(static_cast<float>(v));
  return p;
}

void keep_known_attributes(Example& e) {
  const Schema& schema = e.operation().schema;
  std::erase_if(e.attributes, [&](const auto& attribute) {
    return std::ranges::none_of(
        schema.attributes, [&](const Attribute& known) { return known.name == attribute.first; });
  });
}

Example example_of(const Operation& operation, Draw& draw) {
  Example e{std::string(operation.id), {}, {}, {}, &operation};
  RandomCall call(e, draw);
  operation.examples.random(call);
  keep_known_attributes(e);
  return e;
}
Example example_of(std::string_view id, Draw& draw) {
  return example_of(known_operation(id), draw);
}

std::vector<Matrix<double>> value_of(const Example& e) {
  return run<double>(e, ExactRoundings(), e.operation().value);
}
std::vector<Matrix<float>> evaluation_of(const Example& e) {
  return run<float>(e, RealRoundings(), e.operation().evaluate);
}
std::vector<Matrix<BigFloat>> truth_of(const Example& e) {
  return run<BigFloat>(e, NoRoundings<BigFloat>(), e.operation().truth);
}
Outcome<Tolerance> tolerance_of(const Example& e, Mode mode, double delta) {
  std::vector<const Matrix<double>*> pointers;
  for (const auto& input : e.inputs) pointers.push_back(&input);
  const auto values = value_of(e);
  auto t = e.operation().tolerance(
      {pointers, e.attributes, e.how, mode, delta, values, {}, e.sums, e.form});
  const double inflated = mutant_factor("bound." + e.id);
  if (!t || inflated == 1) return t;
  Tolerance wider = *t;
  for (auto& bound : wider.bound) {
    for (double& x : bound.values) x *= inflated;
  }
  return wider;
}

void judge(const Example& e, const std::vector<Matrix<float>>& outputs, Comparison& verdict,
           Mode mode, double delta) {
  const auto tolerance = tolerance_of(e, mode, delta);
  if (!tolerance) {
    ++verdict.refusals;
    verdict.refusal = tolerance.error().detail;
    return;
  }
  const auto values = value_of(e);
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    for (std::size_t i = 0; i < outputs[o].size(); ++i) {
      const double value = values[o].values[i];
      const double mean = mode == Mode::moments ? tolerance->bias[o].values[i] : 0;
      const double error = std::fabs(static_cast<double>(outputs[o].values[i]) - value - mean);
      const double bound = tolerance->bound[o].values[i];
      if (mode == Mode::moments && bound == 0) {  // foretold, but for what FP64 loses
        if (!(error <= 0x1p-40 * std::fabs(value))) ++verdict.violations;
        continue;
      }
      ++verdict.elements;
      if (mode != Mode::moments && !(error <= bound)) ++verdict.violations;
      if (error == 0) continue;
      verdict.largest_ratio = std::max(verdict.largest_ratio, error / bound);
      verdict.squares += error / bound * (error / bound);
    }
  }
}

}  // namespace plumb::bounds
