// trace/where.hpp: where in a tensor two runs differ.
//
// TESTED   tests/trace/profile_test.cpp
#pragma once

#include "trace/profile.hpp"
#include "trace/sees.hpp"
#include "trace/whole.hpp"

namespace plumb::trace {

// Both have one shape. The difference over the largest number of `b`; infinite where `b` is zero.
Profile where_they_differ(const Whole& a, const Whole& b);

}  // namespace plumb::trace
