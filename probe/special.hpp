// probe/special.hpp: products of infinities and NaN, and sums beyond the largest number: are they what
// IEEE 754 says, or is anything saturated? No bound holds there, so that no card says it: observed.
//
// TESTED   tests/probe/special_test.cpp
#pragma once

#include "probe/findings.hpp"
#include "probe/sees.hpp"
#include "probe/subject.hpp"

namespace plumb::probe {

void find_special(const Subject& subject, Findings& findings);

}  // namespace plumb::probe
