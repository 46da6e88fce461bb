// trace/merge.hpp: shards become whole tensors, and every way in which they do not fit is a
// finding.
//
// Always checked: shards lie inside the whole, cover it, replicas agree bit by bit, parts of a sum
// are all there; and which values are not finite. A violation names the ranks and the coordinates.
//
// TESTED   tests/trace/merge_test.cpp
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trace/finding.hpp"
#include "trace/sees.hpp"
#include "trace/trace.hpp"

namespace plumb::trace {

struct Merged {
  Values values;
  std::map<std::string, Format> formats;
  std::vector<Finding> findings;    // statistic "structure"
  std::vector<Finding> not_finite;  // the same, of values: damage, unless the step was left out
};

// The id of the tensor that a record is a replica of: without its "@recompute".
std::string without_recompute(const std::string& id);

// Why the pieces of `id` made no whole tensor, in parentheses; empty if nothing is known of it.
std::string why_not_whole(const Merged& merged, const std::string& id);

// Where replicas disagree the lowest rank's values are kept. Costs one pass over all shards.
Merged merge(const Trace& trace);

}  // namespace plumb::trace
