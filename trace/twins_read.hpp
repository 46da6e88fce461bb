// trace/twins_read.hpp: the traces of twins beside their reference: each tensor of each twin, and what one pass
// over it shows.
//
// COSTS    reads each twin once, and the reference as often for each
// TESTED   tests/trace/twin_traces_test.cpp
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "trace/hands.hpp"
#include "trace/merge.hpp"
#include "trace/sees.hpp"
#include "trace/trace.hpp"
#include "trace/twins.hpp"

namespace plumb::trace {

// "twin 3", for the third.
std::string name_of_twin(std::size_t k);

struct OfTwins;  // what a pass over a tensor of each showed

// What it is made from has to outlive it.
class TwinsRead {
 public:
  TwinsRead(const Run& reference, const std::vector<const Trace*>& twins, const Hands& hands);

  const std::vector<Run>& runs() const { return runs_; }
  // Has the twin another number than the reference?
  bool moves(std::size_t k, const std::string& id) const;
  Around around(const std::string& id) const;

 private:
  OfTwins look(const std::string& id) const;

  const Run& reference_;
  std::vector<Run> runs_;
  std::map<std::string, std::vector<bool>> moved_;
};

}  // namespace plumb::trace
