// bounds/examples/example.hpp: calls of every operation with random inputs, sizes, parts and
// formats; and the judge's verdict on what came of them. For tests, experiments and tables.
// TESTED   tests/bounds/operations/*_test.cpp use nothing else
#pragma once

#include <string>
#include <vector>

#include "bounds/examples/draw.hpp"
#include "bounds/operation.hpp"

namespace plumb {

struct Example {
  std::string id;
  std::vector<Matrix<double>> inputs;
  Attributes attributes;
  Evaluation how;
};

// Inputs of the draw's kind, random sizes, parts, wire and output formats.
Example example_of(std::string_view id, Draw& draw);

template <class T, class R>
std::vector<Matrix<T>> run(const Example& e, R&& roundings,
                           std::vector<Matrix<T>> (*what)(const Call<T>&)) {
  std::vector<Matrix<T>> inputs;
  std::vector<const Matrix<T>*> pointers;
  for (const auto& input : e.inputs) inputs.push_back(converted<T>(input));
  for (const auto& input : inputs) pointers.push_back(&input);
  return what({pointers, e.attributes, e.how, roundings});
}

// Rows of probabilities, in FP32.                                                       // (T, N)
Matrix<double> value_of_softmax(const Matrix<double>& x);

std::vector<Matrix<double>> value_of(const Example& e);
std::vector<Matrix<float>> evaluation_of(const Example& e);
std::vector<Matrix<Truth>> truth_of(const Example& e);
Outcome<Tolerance> tolerance_of(const Example& e, Mode mode = Mode::deterministic,
                                double delta = 1e-3);

// What came of comparing outputs with the value, element by element. Of moments: elements with a
// deviation, their errors about the bias; a violation is an error where none is left to chance.
struct Comparison {
  std::size_t elements = 0, violations = 0, refusals = 0;
  double largest_ratio = 0;  // error / bound
  double squares = 0;        // of error / bound
  double rms() const { return std::sqrt(squares / static_cast<double>(elements)); }
  std::string refusal;
};

void judge(const Example& e, const std::vector<Matrix<float>>& outputs, Comparison& verdict,
           Mode mode = Mode::deterministic, double delta = 1e-3);

}  // namespace plumb
