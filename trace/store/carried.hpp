// trace/store/carried.hpp: results that go from one process of a job to the others (trace/hands.hpp), as
// bytes. What comes out is what went in, to the last bit; infinities too, NaN as some NaN.
//
// TESTED   tests/trace/hands_test.cpp
#pragma once

#include <string>

#include "trace/pairs.hpp"
#include "trace/profile.hpp"
#include "trace/replay.hpp"
#include "trace/sees.hpp"
#include "trace/spreads.hpp"

namespace plumb::trace {

// What one pass over a tensor of both runs shows.
struct Looked {
  Pair pair;
  Shown reference, candidate;
};

// What a pass over one tensor of all twins shows.
struct OfTwins {
  std::vector<Shown> seen;
  std::vector<bool> moved;  // by twin: has it another shape or another number than the reference?
};

std::string packed(const Looked& x);
std::string packed(const OfTwins& x);
std::string packed(const Measured& x);
std::string packed(const Replayed& x);
std::string packed(const Profile& x);
void unpack(const std::string& bytes, Looked& x);
void unpack(const std::string& bytes, OfTwins& x);
void unpack(const std::string& bytes, Measured& x);
void unpack(const std::string& bytes, Replayed& x);
void unpack(const std::string& bytes, Profile& x);

}  // namespace plumb::trace
