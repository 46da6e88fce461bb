#include "model/spec/schedule.hpp"

#include <optional>
#include <tuple>

namespace plumb::model {
namespace {

class Clocks {
 public:
  Clocks(int ranks, int stages, int micro_batches)
      : ranks_(ranks), stages_(stages), n_(micro_batches), forwards_(stages), backwards_(stages) {}

  std::vector<std::vector<Task>> play() {
    std::vector<std::vector<Task>> orders(ranks_);
    for (int left = 2 * stages_ * n_; left > 0; ++tick_) {
      std::vector<Task> now;
      for (int rank = 0; rank < ranks_; ++rank) {
        const std::optional<Task> task = next(rank);
        if (!task) continue;
        orders[rank].push_back(*task);
        now.push_back(*task);
      }
      // A task of the next tick can take the results of this one.
      for (const Task& task : now) ++(task.backward ? backwards_ : forwards_)[task.stage];
      left -= static_cast<int>(now.size());
    }
    return orders;
  }

 private:
  // Returns the backward of the earliest micro-batch; else a forward, in blocks of as many
  // micro-batches as there are ranks, so that interleaved stages take turns.
  std::optional<Task> next(int rank) const {
    std::optional<Task> best;
    for (int s = rank; s < stages_; s += ranks_) {
      for (const bool backward : {true, false}) {
        if (!ready(backward, s)) continue;
        const Task task{backward, (backward ? backwards_ : forwards_)[s], s, tick_};
        if (!best || order(task) < order(*best)) best = task;
      }
    }
    return best;
  }

  bool ready(bool backward, int s) const {
    const int i = (backward ? backwards_ : forwards_)[s];
    if (i == n_) return false;
    if (backward) return forwards_[s] > i && (s + 1 == stages_ || backwards_[s + 1] > i);
    return i - backwards_[s] < stages_ - s && (s == 0 || forwards_[s - 1] > i);
  }

  std::tuple<int, int, int, int> order(const Task& t) const {
    if (t.backward) return {0, t.micro_batch, -t.stage, 0};
    return {1, t.micro_batch / ranks_, t.stage, t.micro_batch};
  }

  int ranks_, stages_, n_, tick_ = 0;
  std::vector<int> forwards_, backwards_;  // done, by stage
};

}  // namespace

std::vector<std::vector<Task>> schedule(int ranks, int stages, int micro_batches) {
  return Clocks(ranks, stages, micro_batches).play();
}

}  // namespace plumb::model
