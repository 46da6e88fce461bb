// trace/judge/judge.hpp: outputs of one operation, as somebody's kernel left them in a file, held
// against the bounds that the operation has for the inputs in other files.
//
// Where rows depend on no other row (bounds/row_wise.hpp) they are judged in blocks, side by side,
// and some may be drawn instead of all. Bounds by chance hold for all that was judged together: each
// block gets its share of delta.
//
// REFUSES  with one sentence: whatever operands.hpp does; shapes that do not fit; inputs that are not
//          finite; bounds that cannot be given; numbers that the format of the output has not
// TESTED   tests/trace/judge_test.cpp, tests/cli/judge_test.cpp
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bounds/judgement.hpp"
#include "bounds/machine.hpp"
#include "bounds/operation.hpp"
#include "trace/judge/operands.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

struct JudgeOptions {
  const Operation* operation = nullptr;
  const Machine* machine = nullptr;
  std::vector<Source> inputs = {}, outputs = {};
  TensorNames names = {};
  Attributes attributes = {};
  const Format* input = nullptr;   // of a product's inputs, where files hold them wider
  const Format* output = nullptr;  // of the outputs, where files hold them wider
  Mode mode = Mode::deterministic;
  double delta = 1e-9;
  std::size_t rows = 0;  // to be drawn; 0: all
  std::uint64_t seed = 1;
  std::filesystem::path bounds = {};  // file for values and bounds; empty: none
};

struct JudgedOutput {
  OperandInFile operand;
  Format format;
  Judgement judgement;
  std::vector<Term> terms = {};  // of the worst element's bound
};

struct JudgedFiles {
  Attributes attributes;  // as they were taken
  std::vector<JudgedOutput> outputs;
  std::vector<std::string> not_given;  // outputs in no file
  std::size_t rows = 0, of_rows = 0;   // judged of how many; equal: all
  std::string sums;                    // in which order they are assumed

  // 1 if an element is outside, 3 if there was none to judge.
  int exit_code() const;
};

JudgedFiles judge_files(const JudgeOptions& asked);

}  // namespace plumb::trace
