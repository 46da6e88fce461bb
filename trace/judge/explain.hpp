// trace/judge/explain.hpp: what was judged, by what, and the worst element, in lines for people.
//
// TESTED   tests/cli/judge_test.cpp, tests/c/judge_test.cpp
#pragma once

#include <string>

#include "trace/judge/judge.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// "softmax on ieee, deterministic, assumes ...", and what was drawn or left out.
std::string head_of(const JudgedTensors& judged, const JudgeOptions& asked);
// "verdict: PASS: 8192 elements, none outside of its bound"
std::string verdict_of(const JudgedTensors& judged);
// "p, 8 x 1024 fp32: 8192 judged, 1024 outside"
std::string line_of(const JudgedOutput& output);
// The worst element, and the largest term of its bound.
std::string worst_of(const JudgedOutput& output, Mode mode);

// All of these, of each output.
std::string explanation_of(const JudgedTensors& judged, const JudgeOptions& asked);
// The head, and how far each output may be off at most.
std::string bounds_explained(const JudgedTensors& judged, const JudgeOptions& asked);

// The one that is largest; nullptr where there are none.
const Term* largest_of(const std::vector<Term>& terms);

}  // namespace plumb::trace
