// probe/casts.hpp: what a cast of FP32 numbers to a short format does, which no card says and no bound
// takes from one: it is observed.
//
//   rounding   each pair of neighbours among the format's normal numbers, with a quarter, a half and
//              three quarters of the way between them, and what lies next to the half; to nearest
//              with ties to even or away, toward zero, away, up, down, or by chance
//   subnormal  the same below the smallest normal number: as the others, or zero
//   beyond     finite numbers above the largest, infinities, NaN
//
// TESTED   tests/probe/casts_test.cpp
#pragma once

#include <string>
#include <vector>

#include "number/format.hpp"
#include "probe/findings.hpp"
#include "probe/sees.hpp"
#include "probe/subject.hpp"

namespace plumb::probe {

// "bf16", "fp16", "e4m3fn", "e5m2": of functions cast_bf16 ...
const std::vector<Format>& cast_formats();

// In words, as "to nearest, ties to even; subnormals kept; beyond the largest number infinity; ...".
// Empty where the subject has no such cast.
std::string words_of_cast(const Function& cast, const Format& to);

void find_casts(const Subject& subject, const CalibrateOptions& options, Findings& findings);

}  // namespace plumb::probe
