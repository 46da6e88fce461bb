#include <cmath>

#include "bounds/on_machine.hpp"
#include "bounds/proof/certified.hpp"
#include "probe/calibrate.hpp"
#include "probe/functions.hpp"

namespace plumb::probe {
namespace {

struct Truth {
  Matrix<double> a, b;
  Certified product;
};

Truth truth_of(const Operands& x) {
  Matrix<double> a = converted<double>(x.a), b = converted<double>(x.b);
  Certified product = certified_product(view(a), view(b));
  return {std::move(a), std::move(b), std::move(product)};
}

// Holds a sample against one mode of the card's bound.
Outcome<Tolerance> bound_of(const Truth& truth, const Machine& card, const Format& input,
                            Mode mode) {
  const Operation& gemm = known_operation("gemm");
  static const Attributes plain{{"transpose_a", 0}, {"transpose_b", 0}};
  const std::vector<Matrix<double>> values{truth.product.value};
  const ToleranceCall call{{&truth.a, &truth.b}, plain, {}, mode, 1e-9, values};
  return tolerance_on(card, gemm, call, input);
}

}  // namespace

void validate_functions(const Subject& subject, const Machine& card, std::size_t arguments,
                        unsigned seed, Validation& result) {
  for (const KnownFunction& known : known_functions()) {
    const Fact* fact = card.fact(known.fact);
    const auto of = subject.functions.find(known.name);
    if (fact == nullptr || of == subject.functions.end()) continue;
    const Arguments asked = arguments_of(known, arguments, seed);
    const FunctionErrors errors = errors_of(known, asked, of->second(asked.first, asked.second));
    result.arguments += errors.inputs;
    result.function_errors += errors.beyond(std::stod(fact->value));
  }
}

Validation validate(const Subject& subject, const Machine& card,
                    const std::vector<Emulated>& emulations, std::size_t longest,
                    std::size_t widest, unsigned seed) {
  Validation result;
  auto samples = samples_of(subject, {24, longest, seed, false, widest});
  if (card.fact("subnormals") != nullptr) {
    for (Sample& sample : samples_of(subject, {24, longest, seed + 1, true})) {
      samples.push_back(std::move(sample));
    }
  }
  if (!emulations.empty()) result.equal = share_equal(emulations[0], samples);
  double squares = 0;
  std::size_t counted = 0;
  for (const auto& [operands, found, kind] : samples) {
    const Truth truth = truth_of(operands);
    const auto bound = bound_of(truth, card, subject.input, Mode::deterministic);
    if (!bound) {
      result.refused = bound.error().detail;
      return result;
    }
    // Of data that do not repeat, which moments are for.
    const bool foretold = kind == "plain" || kind == "positive";
    const auto moments = bound_of(truth, card, subject.input, Mode::moments);
    for (std::size_t e = 0; e < found.size(); ++e) {
      const double error = static_cast<double>(found.values[e]) - truth.product.value.values[e];
      const double limit = bound->bound[0].values[e] + truth.product.bound.values[e];
      ++result.elements;
      if (!(std::fabs(error) <= limit)) ++result.outside;
      if (limit > 0) result.worst = std::max(result.worst, std::fabs(error) / limit);
      if (!foretold || !moments || moments->bound[0].values[e] == 0) continue;
      const double z = (error - moments->bias[0].values[e]) / moments->bound[0].values[e];
      squares += z * z;
      ++counted;
    }
  }
  if (counted > 0) result.moments = std::sqrt(squares / static_cast<double>(counted));
  return result;
}

}  // namespace plumb::probe
