// model/spec/schedule.hpp: the order in which a pipeline rank works through micro-batches and
// stages.
//
// One forward, one backward (1F1B): a stage holds at most as many micro-batches as there are stages
// from it to the end, and prefers a backward. The order is made by playing all ranks' clocks at
// once, so that none can wait for itself, however stages are divided.
//
// TESTED   tests/model/schedule_test.cpp
#pragma once

#include <vector>

#include "model/sees.hpp"

namespace plumb::model {

struct Task {
  bool backward;
  int micro_batch;  // 0, 1 ...: of this data-parallel rank
  int stage;
  int tick = 0;  // of the clock that all ranks share: it takes in what earlier ticks made
  bool operator==(const Task&) const = default;
};

// Returns the tasks of each rank in order. Stage s lives on rank s mod `ranks`.
std::vector<std::vector<Task>> schedule(int ranks, int stages, int micro_batches);

}  // namespace plumb::model
