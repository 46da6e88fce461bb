#include <algorithm>
#include <cmath>
#include <string_view>

#include "bounds/examples/draw.hpp"
#include "bounds/examples/example.hpp"
#include "bounds/on_machine.hpp"
#include "bounds/proof/certified.hpp"
#include "probe/calibrate.hpp"
#include "probe/functions.hpp"
#include "probe/softmax.hpp"
#include "probe/sums.hpp"

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

// Tables of an operation whose sums have up to `longest` terms.
std::vector<Example> drawn_tables(const std::string& operation, std::size_t longest,
                                  unsigned seed) {
  std::vector<Example> all;
  Draw shapes("plain", seed);
  for (const std::string_view kind : {"plain", "spread", "cancelling", "positive"}) {
    for (const bool whole : {true, false}) {
      const std::size_t terms = whole ? longest : shapes.between(1, longest);
      const std::size_t sums = whole ? 192 : shapes.between(1, 24);
      Draw draw(kind, seed + static_cast<unsigned>(all.size()));
      const bool columns = operation == "column_sum";
      Matrix<double> x = columns ? draw.matrix(terms, sums) : draw.moderate(sums, terms, 3);
      all.push_back({operation, {std::move(x)}, {}, {}});
    }
  }
  return all;
}

// Holds one table against the card's bound.
void hold(const Example& e, const Tensor& found, const Machine& card, HeldTables& held) {
  const auto values = value_of(e);
  const ToleranceCall call{{&e.inputs[0]}, e.attributes, e.how, Mode::deterministic, 0, values};
  const auto bound = tolerance_on(card, e.operation(), call, fp32);
  if (!bound) {
    held.refused = bound.error().detail;
    return;
  }
  hold_elements(found, values[0], bound->bound[0], held);
}

}  // namespace

void validate_functions(const Subject& subject, const Machine& card, std::size_t arguments,
                        unsigned seed, Validation& result) {
  for (const KnownFunction& known : known_functions()) {
    const Fact* fact = card.fact(known.fact);
    const auto of = subject.functions.find(known.name);
    if (fact == nullptr || of == subject.functions.end()) continue;
    const Arguments asked = arguments_of(known, arguments, seed);
    const std::vector<float> results = of->second(asked.first, asked.second);
    const FunctionErrors errors = errors_of(known, asked, results);
    // What was answered before and is not answered now is no result within the card's ulps.
    const std::size_t silent = asked.first.size() - errors.inputs;
    result.arguments += asked.first.size();
    result.function_errors += errors.beyond(std::stod(fact->value)) + silent;
  }
}

bool Validation::holds() const {
  const auto outside_of = [](const HeldTables& held) { return held.outside > 0; };
  return outside == 0 && function_errors == 0 && std::ranges::none_of(tables, outside_of);
}

void hold_elements(const Tensor& found, const Matrix<double>& value, const Matrix<double>& bound,
                   HeldTables& held) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double error = std::fabs(static_cast<double>(found.values[i]) - value.values[i]);
    ++held.elements;
    if (!(error <= bound.values[i])) ++held.outside;
    if (bound.values[i] > 0) held.worst = std::max(held.worst, error / bound.values[i]);
  }
}

void validate_tables(const Subject& subject, const Machine& card, std::size_t longest,
                     unsigned seed, Validation& result) {
  for (const char* operation : {"column_sum", "softmax"}) {
    const auto of = subject.tables.find(operation);
    if (of == subject.tables.end()) continue;
    const std::vector<Example> examples = drawn_tables(operation, longest, seed);
    std::vector<Tensor> asked;
    for (const Example& e : examples) asked.push_back(converted<float>(e.inputs[0]));
    const std::vector<Tensor> found = of->second(asked);
    if (found.empty()) continue;
    HeldTables held{operation};
    for (std::size_t i = 0; i < found.size() && held.refused.empty(); ++i) {
      hold(examples[i], found[i], card, held);
    }
    if (const auto order = card.order_of(operation, 1); order && order->up_to > 2) {
      held.equal = operation == std::string_view("softmax")
                       ? share_of_meetings(of->second, *order, seed)
                       : share_of_sums(subject, *order, seed);
    }
    result.tables.push_back(std::move(held));
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
      const double limit =
          bound->bound[0].values[e] + truth.product.bound(e / found.cols, e % found.cols);
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
