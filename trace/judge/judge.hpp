// trace/judge/judge.hpp: outputs of one operation, as somebody's kernel made them, held against the
// bounds that the operation has for its inputs. Tensors are in files or in memory (given.hpp).
//
// Where rows depend on no other row (bounds/row_wise.hpp) they are judged in blocks, side by side,
// and some may be drawn instead of all. Bounds by chance hold for all that was judged together: each
// block gets its share of delta.
//
// REFUSES  with one sentence: whatever plan.hpp does; inputs that are not finite; bounds that cannot
//          be given; numbers that the format of the output has not
// TESTED   tests/trace/judge_test.cpp, tests/cli/judge_test.cpp, tests/c
#pragma once

#include <string>
#include <vector>

#include "bounds/judgement.hpp"
#include "trace/judge/plan.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

struct JudgedOutput {
  GivenOperand operand;
  Format format;
  Judgement judgement;
  std::vector<Term> terms = {};  // of the worst element's bound; of the largest, where bounds alone
                                 // were asked for
  Compared largest = {.bound = -1};  // of bounds alone: the element with the largest
};

struct JudgedTensors {
  Attributes attributes = {};  // as they were taken
  std::vector<JudgedOutput> outputs = {};
  std::vector<std::string> not_given = {};  // outputs that nobody gave
  std::size_t rows = 0, of_rows = 0;        // judged of how many; equal: all
  std::string sums = "";                    // in which order they are assumed

  // 1 if an element is outside, 3 if there was none to judge (bounds alone: none was).
  int exit_code() const;
};

JudgedTensors judge_tensors(const JudgeOptions& asked);

}  // namespace plumb::trace
