// c/result.hpp: what was found, as a C program reads it.
//
// TESTED   tests/c/calls_test.cpp, tests/c/judge_test.cpp
#pragma once

#include <string>

#include "c/call.hpp"
#include "c/plumb.h"
#include "c/sees.hpp"

namespace plumb::c {

// Fills the result; plumb_free() frees what it owns.
void tell(const JudgedTensors& judged, const Asked& asked, int code, plumb_result& result);
// The sentence of a failure.
void tell(const std::string& trouble, plumb_result& result);
void free_of(plumb_result& result);

}  // namespace plumb::c
