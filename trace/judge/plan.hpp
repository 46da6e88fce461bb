// trace/judge/plan.hpp: what of which tensor is to be judged, and how: decided before any number is
// read.
//
// TESTED   tests/trace/judge_test.cpp
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bounds/machine.hpp"
#include "bounds/row_wise.hpp"
#include "trace/judge/operands.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// Values and bounds of some rows of an output, or of all of it.
struct BoundedBlock {
  const GivenOperand& output;
  std::span<const std::size_t> rows;  // their numbers
  const Matrix<double>& value;
  const Matrix<double>& bound;
  const Matrix<double>* bias;  // of moments
};

struct JudgeOptions {
  const Operation* operation = nullptr;
  const Machine* machine = nullptr;
  std::vector<Source> inputs = {}, outputs = {};
  TensorNames names = {};
  Attributes attributes = {};
  const Format* input = nullptr;   // of a product's inputs, where they are held wider
  const Format* output = nullptr;  // of the outputs, where they are held wider
  Mode mode = Mode::deterministic;
  double delta = 1e-9;
  std::size_t rows = 0;  // to be drawn; 0: all
  std::uint64_t seed = 1;
  std::filesystem::path bounds = {};  // file for values and bounds; empty: none
  // Called with values and bounds of each block, in their order, if there is such a function.
  std::function<void(const BoundedBlock&)> keep = {};
  bool bounds_only = false;  // the outputs have shapes and formats; their numbers are not looked at
  Words words = words_of_options;
};

// One output, its place in the call, and the place of its format in JudgePlan::formats.
struct PlannedOutput {
  std::size_t place;
  GivenOperand operand;
  std::size_t format = 0;
};

struct JudgePlan {
  // Throws Failure with one sentence: what operands.hpp refuses; shapes and formats that do not fit;
  // rows to be drawn that depend on each other.
  explicit JudgePlan(const JudgeOptions& asked);

  Attributes attributes;  // as they are taken
  std::vector<GivenOperand> inputs;
  std::vector<PlannedOutput> outputs;
  std::vector<std::string> not_given;  // outputs that nobody gave
  bool nothing = false;                // outputs without numbers, of inputs without numbers

  std::vector<Format> formats;  // that outputs have, each once
  Format input = fp32;          // of a product's inputs
  bool by_rows = false, drawn = false;
  std::vector<Cut> cuts;          // of the inputs
  std::vector<std::size_t> rows;  // that are judged
  std::size_t of_rows = 0;        // all that there are
  std::size_t block_rows = 1;

  Cut cut_of_outputs() const { return by_rows ? Cut::rows : Cut::none; }
  std::size_t elements_of(const GivenOperand& output) const {
    return drawn ? rows.size() * output.shape.cols : output.tensor->size();
  }
  // The block of rows that begins with the `first` of them.
  std::span<const std::size_t> block(std::size_t first) const {
    return std::span(rows).subspan(first, std::min(block_rows, rows.size() - first));
  }
  // Throws Failure unless the output has that shape.
  void refuse_shape(const GivenOperand& y, std::size_t rows, std::size_t cols) const;

 private:
  void check_shapes();
  Format format_of(const GivenOperand& y) const;
  void choose_formats();
  void choose_rows();

  const JudgeOptions& asked_;
  const Operation& operation_;
};

// The shape that an output has by the shapes of the inputs; nothing if there are not so many. Throws
// Failure as JudgePlan does, and where only the evaluation knows it.
std::optional<Shape> shape_of_output(const JudgeOptions& asked, std::size_t output);

}  // namespace plumb::trace
