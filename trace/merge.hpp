// trace/merge.hpp: shards become whole tensors, and every way in which they do not fit is a
// finding.
//
// Always checked: shards lie inside the whole, cover it, replicas agree bit by bit, parts of a sum
// are all there; and which values are not finite. A violation names the ranks and the coordinates.
// Where replicas disagree the lowest rank's values are kept.
//
// TESTED   tests/trace/merge_test.cpp, tests/trace/whole_test.cpp, tests/experiments/scene_test.cpp
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trace/finding.hpp"
#include "trace/sees.hpp"
#include "trace/trace.hpp"
#include "trace/whole.hpp"

namespace plumb::trace {

struct Merged {
  Values values;
  std::map<std::string, Format> formats;
  std::vector<Finding> findings;    // statistic "structure"
  std::vector<Finding> not_finite;  // the same, of values: damage, unless the step was left out
};

// The tensors of which ranks hold summands.
std::set<std::string> held_in_summands(const Trace& run);

// The id of the tensor that a record is a replica of: without its "@recompute".
std::string_view without_recompute(std::string_view id);

// Why the pieces of `id` made no whole tensor, in parentheses; empty if nothing is known of it.
std::string why_not_whole(const std::vector<Finding>& findings, const std::string& id);

// All of it in memory. Costs one pass over all shards.
Merged merge(const Trace& trace);

// The same of tensors that are whole: none is copied. Costs one pass over them.
Merged merged_of(const Values& values, const std::map<std::string, Format>& formats);

// What a pass over one tensor shows.
struct Shown {
  Disagreements disagreements = {};
  bool finite = true;
};

// The tensors of a run, each of which is put together when it is read. Shards, and tensors that are
// merged already, have to outlive it.
class Run {
 public:
  // Nothing is read yet; findings are none until they are told.
  explicit Run(const Trace& trace);
  Run(const Merged& merged);

  // To be called with what a pass over each tensor showed.
  void tell(const std::map<std::string, Shown>& seen);

  Wholes values;
  std::vector<Finding> findings, not_finite;  // as those of Merged

 private:
  bool merged_ = false;
  std::map<std::string, std::vector<Finding>> broken_;  // by id: pieces that make no tensor
  std::vector<Finding> unfit_;
};

// Is each of n numbers finite?
bool all_finite(const float* x, std::size_t n);
// Reads all of it.
Shown look_at(const Whole& whole);

}  // namespace plumb::trace
