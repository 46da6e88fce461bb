// cli/bubble_replay.hpp: `train --replay-in-bubbles`: while ranks wait for their neighbours in the
// pipeline, they replay the operations of the step before. What is left when a step ends is
// replayed from its merged trace, so nothing is left out.
//
// The first step has nothing to replay: by it the waits of the steps after it are foreseen.
//
// TESTED   tests/cli/bubble_replay_test.cpp
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cli/sees.hpp"
#include "model/rank/waits.hpp"
#include "model/spec/layout.hpp"
#include "trace/rank_replay.hpp"

namespace plumb::cli {

class BubbleReplay {
 public:
  // Throws Failure on a layout without stages, and on ranks that have a GPU each.
  static void refuse_odd(const Layout& layout, const std::string& world_name);
  BubbleReplay(const Layout& layout, World& world);
  BubbleReplay(const BubbleReplay&) = delete;
  BubbleReplay& operator=(const BubbleReplay&) = delete;

  // For the next step's ranks.
  std::vector<Waits>* waits() { return &waits_; }
  // A step has ended: what its ranks did of the replay of the step before it is taken, the rest of
  // that is done. The step's own replay begins with the next one. Every process calls it.
  void ended(std::shared_ptr<const Trace> step);
  // No step comes: replays the last one. Prints what was found, where; returns the exit code.
  int finish();

 private:
  struct Piece final : IdleWork {
    RankReplay replay;
    bool piece(double seconds) override { return replay.one(seconds); }
  };
  void settle();
  std::vector<Inside> gathered();
  void tell_findings(int step, const Replayed& seen) const;

  World& world_;
  std::vector<Waits> waits_;
  std::vector<Piece> pieces_;  // of each rank
  std::shared_ptr<const Trace> before_;
  std::size_t taken_ = 0, rest_ = 0, last_ = 0, findings_ = 0, not_judged_ = 0;
  // In seconds, over the ranks that are here and the steps in which they replayed.
  double pipeline_ = 0, waited_ = 0, worked_ = 0;
};

}  // namespace plumb::cli
