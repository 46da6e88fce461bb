// model/estimate/bubbles.hpp: the time that ranks of a pipeline wait in a step, and how much of
// other work, such as the check of the step before, fits into it.
//
// Every rank works through its order; a task begins when the rank is free and its message is there.
// Time is in forwards of one chunk: the layers of one stage for one micro-batch. Chunks are alike.
// Other work comes in pieces of one size, none of which is cut. Before a wait the rank knows how
// long it will be (Fill::foreseen: a piece is begun only if it ends in time) or it does not
// (Fill::polled: a piece is begun as long as the message is not there, so the last one may end
// late, and what follows is late with it).
//
// ASSUMES  As much other work on each rank; the optimizer and sums over ranks take no time.
// REFUSES  interleaved(): micro-batches that the ranks do not divide.
// COSTS    one pass over all tasks for each simulation.
// TESTED   tests/model/bubbles_test.cpp
// SOURCES  bounds/SOURCES.md [Narayanan-21] (order and formulas), [PipeFill-24] (filling)
#pragma once

#include <vector>

#include "model/sees.hpp"
#include "model/spec/config.hpp"
#include "model/spec/schedule.hpp"

namespace plumb::model {

using Orders = std::vector<std::vector<Task>>;  // of each rank

// The interleaved order as published: rank r of `ranks` begins with 2 (ranks - 1 - r) +
// (chunks - 1) ranks forwards, then forward and backward take turns. Ticks are not set. Throws
// Failure unless `ranks` divides `micro_batches`.
Orders interleaved(int ranks, int chunks, int micro_batches);

// In forwards of a chunk; `send`: from the end of a task to its message being there.
struct TaskCosts {
  double forward = 1, backward = 2, send = 0;
};

enum class Fill { foreseen, polled };

// Other work.
struct Filling {
  double work = 0;    // of each rank, in forwards of a chunk; may be infinite
  double piece = 1;   // its size, above 0
  double change = 0;  // what beginning a piece costs besides
  Fill fill = Fill::foreseen;
};

struct Bubbles {
  double step = 0;            // its length without other work, in forwards of a chunk
  double share = 0;           // of it that ranks wait, mean over ranks
  double done = 0;            // other work, mean over ranks, in forwards of a chunk
  double used = 0;            // as a share of the waiting; polled pieces may take more than all
  double fitted = 0;          // share of the work that one step's waits take
  double slow_down = 0;       // of the step, by pieces that end late: 0.01 is one per cent
  std::vector<double> waits;  // of each rank, in forwards of a chunk

  int steps() const;  // until all of the work is done; 0: never
};

// `stages`: of the whole pipeline; stage s lives on rank s mod the number of ranks.
Bubbles bubbles_of(const Orders& orders, int stages, const TaskCosts& costs,
                   const Filling& filling);

// (p - 1) / (v m + p - 1): of p ranks, v chunks on each, m micro-batches.
double published_share(int ranks, int chunks, int micro_batches);

// The sizes that pieces of a check may have, in forwards of a chunk of `layers` layers: the largest
// product of a layer, by its multiply-adds; a layer; a chunk.
enum class Grain { operation, layer, micro_batch };
const char* name_of(Grain grain);
double size_of(Grain grain, const Config& config, double layers);

}  // namespace plumb::model
