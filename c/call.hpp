// c/call.hpp: a call as a C program describes it, as the judge takes it.
//
// REFUSES  with one sentence: pointers that are NULL where something is counted, more dimensions than a
//          tensor has, formats, machines and modes that nobody knows, attributes that are named twice
// TESTED   tests/c/calls_test.cpp
#pragma once

#include <map>
#include <memory>

#include "c/plumb.h"
#include "c/sees.hpp"
#include "trace/judge/judge.hpp"

namespace plumb::c {

// Keeps what the options point to; so it stays where it was made.
class Asked {
 public:
  // Of plumb_judge; or of plumb_bound, whose outputs have no numbers. Throws Failure.
  explicit Asked(const plumb_call* call, bool bounds_only = false);
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  const JudgeOptions& options() const { return options_; }
  // The place of an output in the call.
  std::size_t place_of(const GivenTensor* output) const { return places_.at(output); }

 private:
  void take_attributes(const plumb_call& call);
  void take_inputs(const plumb_call& call);
  void take_outputs(const plumb_call& call);
  // Writes a block into the arrays of its output.
  void write(const BoundedBlock& block) const;

  Machine machine_;
  JudgeOptions options_;
  std::map<const GivenTensor*, std::size_t> places_;
  std::vector<plumb_tensor> outputs_;
};

// "libraries" where the pointer is NULL, and so on.
std::string text_or(const char* text, const char* otherwise);

}  // namespace plumb::c
