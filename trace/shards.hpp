// trace/shards.hpp: does each rank hold the part of each tensor that the promise gives it?
//
// Merging alone cannot tell: one replica of several is a whole tensor too. So whoever knows the
// layout says what each rank should hold, and every difference is a finding: a part that is not
// there, that lies elsewhere or is smaller, that nobody promised, or of which the rank does not
// say how it computed it.
// TESTED   tests/model/shards_test.cpp, tests/model/attacks_test.cpp
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trace/finding.hpp"
#include "trace/sees.hpp"
#include "trace/trace.hpp"

namespace plumb::trace {

struct PromisedShard {
  Placement lies;     // no pieces: the rank takes part, but has none of its elements
  bool made = false;  // by an operation, not given: the rank says how (RankRecord::ran)
};
using Shards = std::vector<std::map<std::string, PromisedShard>>;  // by rank, then by id

// Do they speak of the same elements of the same whole? (How these lie in the shard is not asked.)
bool same_elements(const Placement& a, const Placement& b);

// At most one finding an id, with the first rank that differs and how many do; statistic
// "structure". Costs a pass over ids and ranks, none over values.
std::vector<Finding> misplaced(const Trace& trace, const Shards& promised);

}  // namespace plumb::trace
