// trace/judge/judge.hpp: outputs of one operation, as somebody's kernel left them in a file, held
// against the bounds that the operation has for the inputs in other files.
//
// Where rows depend on no other row (bounds/row_wise.hpp) they are judged in blocks, side by side,
// and some may be drawn instead of all. Bounds by chance hold for all that was judged together: each
// block gets its share of delta.
//
// REFUSES  with one sentence: whatever plan.hpp does; inputs that are not finite; bounds that cannot
//          be given; numbers that the format of the output has not
// TESTED   tests/trace/judge_test.cpp, tests/cli/judge_test.cpp
#pragma once

#include <string>
#include <vector>

#include "bounds/judgement.hpp"
#include "trace/judge/plan.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

struct JudgedOutput {
  OperandInFile operand;
  Format format;
  Judgement judgement;
  std::vector<Term> terms = {};  // of the worst element's bound
};

struct JudgedFiles {
  Attributes attributes = {};  // as they were taken
  std::vector<JudgedOutput> outputs = {};
  std::vector<std::string> not_given = {};  // outputs in no file
  std::size_t rows = 0, of_rows = 0;        // judged of how many; equal: all
  std::string sums = "";                    // in which order they are assumed

  // 1 if an element is outside, 3 if there was none to judge.
  int exit_code() const;
};

JudgedFiles judge_files(const JudgeOptions& asked);

}  // namespace plumb::trace
