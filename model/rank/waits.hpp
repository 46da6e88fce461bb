// model/rank/waits.hpp: how long a rank waits for its neighbours in a pipeline, and other work that
// it does meanwhile.
//
// Before each message a rank asks whether it has arrived; while it has not, other work is done, a
// piece at a time: each of at most half of what is left of the wait, as steps without other work
// had it, since a message that comes early waits for the piece that has begun. No bit of the run
// depends on it, only time does.
//
// COSTS    two looks at the clock for each message, one for each piece; one meeting of the
//          pipeline's ranks before the first task, and a message to each after the last.
// TESTED   tests/model/waits_test.cpp
// SOURCES  bounds/SOURCES.md [PipeFill-24]
#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include "model/sees.hpp"
#include "world/world.hpp"

namespace plumb::model {

// Called on the rank's own thread.
class IdleWork {
 public:
  virtual ~IdleWork() = default;
  // Does a piece that is likely to end within so many seconds; false: there is none.
  virtual bool piece(double seconds) = 0;
};

// What a rank waited for in one step. All of a run's ranks have one, or none has.
class Waits {
 public:
  IdleWork* work = nullptr;  // null: none; the step is then one by which waits are foreseen

  // In seconds, of one step.
  struct Seen {
    double pipeline = 0;  // from the first task's begin, on any rank, to the last one's end
    double waited = 0;    // of it, for messages
    double worked = 0;    // of that, in pieces
    std::size_t messages = 0, pieces = 0;
  };
  const Seen& seen() const { return seen_; }

  // begin() meets the other ranks of the pipeline. end(): this rank has done its tasks; returns when
  // rank 0, whose first stage is the last to end, has done its own. `tag`: of no other message.
  void begin(Communicator& pipeline);
  void end(Communicator& pipeline, int tag);
  Tensor receive(Communicator& pipeline, int from, int tag);

 private:
  struct Foreseen {
    double seconds = 0;  // over all steps without other work
    int steps = 0;
  };
  Seen seen_;
  double began_ = 0;
  std::map<std::pair<int, int>, Foreseen> foreseen_;  // by sender and tag
};

}  // namespace plumb::model
