// trace/rank_replay.hpp: the replay of a run, most of it done by its ranks, each an operation at a
// time: while a rank waits for others, say.
//
// A rank replays what it holds whole: operations of which it recorded every input and output, none
// of them in slices or as a part of a sum. What was inside its tolerance there counts if no replica
// of its tensors disagrees, since the merged run then has the rank's own values. All else is
// replayed from the merged run: what takes in tensors of other ranks, what was not reached, and
// what was not inside, so that its finding is told as ever. So what is found is what replay() finds.
//
// ASSUMES  A trace that is replayed outlives its replay, and lies in memory.
// COSTS    replay()'s; operations that several ranks hold are replayed by each of them.
// TESTED   tests/trace/rank_replay_test.cpp
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "trace/replay.hpp"
#include "trace/sees.hpp"
#include "trace/trace.hpp"

namespace plumb::trace {

// Operations that were inside: by their number in the promise, error / tolerance of each output.
using Inside = std::map<std::size_t, std::vector<double>>;

class RankReplay {
 public:
  explicit RankReplay(const ReplayOptions& options = {}) : options_(options) {}

  // Goes on with the trace of another step, which has its promise. Forgets what was done, but not
  // how long operations took.
  void begin(const Trace& trace, std::size_t rank);
  // Replays the longest operation that has usually taken no more than so many seconds, or one of a
  // kind and shape of which that is not known yet; false: there is none.
  bool one(double seconds);

  std::size_t left() const;
  std::size_t done() const { return done_; }  // inside or not
  const Inside& inside() const { return inside_; }

 private:
  // Operations of one kind and shape, and how long those before them took.
  struct Alike {
    std::vector<std::size_t> left;
    double seconds = 0;
    int times = 0;
    double usual() const { return times == 0 ? 0 : seconds / times; }
  };
  void replay(std::size_t number);

  ReplayOptions options_;
  const Graph* graph_ = nullptr;
  Merged own_;  // looks at the trace's tensors
  std::map<std::string, Alike> alike_;
  Inside inside_;
  std::size_t done_ = 0;
};

// The whole replay.
struct Completed {
  Replayed replayed;      // as replay() has it
  std::size_t taken = 0;  // operations that a rank had done
  std::size_t rest = 0;   // that were replayed here
};
Completed complete(const Graph& graph, const Merged& run, const std::vector<Inside>& of_ranks,
                   const ReplayOptions& options = {});

// One operation a line: its number, then its ratios, as hexadecimal numbers. inside_from() throws
// Failure on other text.
std::string text_of(const Inside& inside);
Inside inside_from(const std::string& text);

}  // namespace plumb::trace
