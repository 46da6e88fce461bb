// bounds/examples/example.hpp: calls of every operation with random inputs, sizes, parts and
// formats; and the comparison of what came of them with the value. For tests, experiments, tables.
//
// TESTED   tests/bounds/operations/*_test.cpp use nothing else
#pragma once

#include <string>
#include <vector>

#include "bounds/examples/draw.hpp"
#include "bounds/operation.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

struct Example {
  std::string id;
  std::vector<Matrix<double>> inputs;
  Attributes attributes;
  Evaluation how;
  const Operation* card = nullptr;  // of an operation that is not in the catalogue
  SumsIn sums = {};
  std::size_t form = 0;  // of Operation::forms

  const Operation& operation() const { return card != nullptr ? *card : known_operation(id); }
};

// A call with inputs of the draw's kind and random sizes, parts, wire and output formats. The card
// need not be one of the catalogue.
Example example_of(const Operation& operation, Draw& draw);
Example example_of(std::string_view id, Draw& draw);

// Leaves out the attributes that the operation does not have.
void keep_known_attributes(Example& e);

template <class T, class R>
std::vector<Matrix<T>> run(const Example& e, R&& roundings,
                           std::vector<Matrix<T>> (*what)(const Call<T>&)) {
  std::vector<Matrix<T>> inputs;
  std::vector<const Matrix<T>*> pointers;
  for (const auto& input : e.inputs) inputs.push_back(converted<T>(input));
  for (const auto& input : inputs) pointers.push_back(&input);
  return what({pointers, e.attributes, e.how, roundings, e.sums, e.form});
}

// Softmax of each row, in FP32.                                                         // (T, N)
Matrix<double> value_of_softmax(const Matrix<double>& x);

std::vector<Matrix<double>> value_of(const Example& e);
std::vector<Matrix<float>> evaluation_of(const Example& e);
std::vector<Matrix<BigFloat>> truth_of(const Example& e);
Outcome<Tolerance> tolerance_of(const Example& e, Mode mode = Mode::deterministic,
                                double delta = 1e-3);

// The comparison of outputs with the value, element by element. Under moments only elements with a
// deviation count, with their errors about the bias; an error where nothing is left to chance is a
// violation.
struct Comparison {
  std::size_t elements = 0, violations = 0, refusals = 0;
  double largest_ratio = 0;  // error / bound
  double squares = 0;        // of error / bound
  double rms() const { return std::sqrt(squares / static_cast<double>(elements)); }
  std::string refusal;
};

void judge(const Example& e, const std::vector<Matrix<float>>& outputs, Comparison& verdict,
           Mode mode = Mode::deterministic, double delta = 1e-3);

}  // namespace plumb::bounds
