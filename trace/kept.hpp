// trace/kept.hpp: has an FP32 sum of at most 256 squares kept its bits?
//
// CLAIM    Within these bounds it has: a square below FP32's normal numbers is off by 2^-150 at most, 256 of
//          them by 2^-26 of the least; and none is near FP32's largest. Who sums beyond them sums in FP64.
// TESTED   tests/trace/difference_test.cpp, tests/trace/statistics_test.cpp
#pragma once

namespace plumb::trace {

inline constexpr float least_kept = 0x1p-116F, most_kept = 0x1p100F;

// Not of NaN.
inline bool kept(float sum) { return sum > least_kept && sum < most_kept; }

}  // namespace plumb::trace
