// trace/partial_promise.hpp: the promise of single tensors, where producers say how each was made.
//
// What makes a tensor is the reference's word, never the run's that is judged; so are the attributes
// of the operation. How its sum is split over ranks is the candidate's word: nobody else knows. Both
// have to name the same operation, inputs and output.
//
// A node is replayed from the candidate's own tensors, whole, by the bounds of its operation; what the
// candidate's ranks share is made as the operation promises it. A node that the reference does not
// keep either is no node: what its producer says of it is wrong. So no candidate is accused by it. None
// is acquitted by a wire that is said to be coarser than the format of the sum: nothing shows it.
//
// ASSUMES  slices of a sum are contiguous, in the order of ranks; in which order more than two of them
//          are added nobody says, and bounds are those of any (Evaluation::any_rank_order)
// REFUSES  (left out, with a reason)  what only one run names or both name otherwise; operations whose
//          outputs a format or the ranks shape; inputs that are not there
// COSTS    for each node one operation in FP32, one in FP64 where bits differ; memory of the tensors
//          of one node, for each thread
// TESTED   tests/trace/partial_promise_test.cpp
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "trace/about.hpp"
#include "trace/hands.hpp"
#include "trace/merge.hpp"
#include "trace/replay.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// Runs and what their producers say outlive it.
class PartialPromise {
 public:
  struct Told {
    const Run& run;
    const Abouts& about;
    std::size_t ranks = std::numeric_limits<std::size_t>::max();  // no more can share a sum
  };
  PartialPromise(const Told& reference, const Told& candidate);
  // A run that is held to its own word: nothing it does otherwise is taken for a mistake of the word.
  explicit PartialPromise(const Told& alone) : PartialPromise(alone, alone) { alone_ = true; }

  // Does the reference say of any tensor how it was made?
  bool empty() const { return nodes_.empty() && left_out_.empty(); }
  // The node that makes it; nullptr: nobody says how it was made.
  const Node* node_of(const std::string& id) const;
  // Is it what an optimizer makes of a gradient? Its bound is a few ulp, so that nobody else need
  // judge it.
  bool is_update(const std::string& id) const;
  // Those that cannot be replayed.
  const std::vector<NotJudged>& left_out() const { return left_out_; }
  // How many calls have a sum that more than two ranks share.
  std::size_t in_any_rank_order() const;

  // The same as replay() of a whole promise.
  Replayed replayed(const std::function<bool(const std::string&)>& wanted,
                    const ReplayOptions& options, const Hands& hands) const;

 private:
  Replayed one(const Node& node, const std::function<bool(const std::string&)>& wanted,
               const ReplayOptions& options) const;
  bool keeps(const Node& node, const Run& run, const ReplayOptions& options) const;
  Replayed of_coarse_wire(const Node& node, const ReplayOptions& options) const;

  Told reference_, candidate_;
  bool alone_ = false;
  std::vector<Node> nodes_;
  std::map<std::string, std::size_t> node_of_;
  std::vector<NotJudged> left_out_;
};

}  // namespace plumb::trace
