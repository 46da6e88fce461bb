#include "model/estimate/bubbles.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "number/outcome.hpp"

namespace plumb::model {
namespace {

using Key = std::tuple<bool, int, int>;

// Plays all ranks' orders, with other work or without.
class Timeline {
 public:
  Timeline(const Orders& orders, int stages, const TaskCosts& costs, const Filling& filling)
      : orders_(orders),
        stages_(stages),
        costs_(costs),
        filling_(filling),
        next_(orders.size(), 0),
        free_(orders.size(), 0),
        waits_(orders.size(), 0),
        left_(orders.size(), filling.work) {}

  void play() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < orders_.size(); ++r) {
        while (next_[r] < orders_[r].size() && ready(orders_[r][next_[r]])) {
          run(r, orders_[r][next_[r]++]);
          moved = true;
        }
      }
    }
    const double end = std::ranges::max(free_);
    for (std::size_t r = 0; r < orders_.size(); ++r) wait_until(r, end);
  }

  double length() const { return std::ranges::max(free_); }
  const std::vector<double>& waits() const { return waits_; }
  double done() const { return done_; }

 private:
  // The task whose message this one takes; itself where it takes none.
  Key source(const Task& t) const {
    if (!t.backward && t.stage > 0) return {false, t.micro_batch, t.stage - 1};
    if (t.backward && t.stage + 1 < stages_) return {true, t.micro_batch, t.stage + 1};
    return {t.backward, t.micro_batch, t.stage};
  }
  bool takes_message(const Task& t) const {
    return source(t) != Key{t.backward, t.micro_batch, t.stage};
  }
  bool ready(const Task& t) const { return !takes_message(t) || ended_.contains(source(t)); }

  void run(std::size_t r, const Task& t) {
    if (takes_message(t)) {
      const bool own = orders_.size() == 1;  // the next stage is here: nothing travels
      wait_until(r, ended_.at(source(t)) + (own ? 0 : costs_.send));
    }
    free_[r] += t.backward ? costs_.backward : costs_.forward;
    ended_[{t.backward, t.micro_batch, t.stage}] = free_[r];
  }

  void wait_until(std::size_t r, double then) {
    const double wait = then - free_[r];
    if (wait <= 0) return;
    waits_[r] += wait;
    const double spent = fill(r, wait);
    const bool late = spent > wait + rounding(r);
    free_[r] = late ? free_[r] + spent : then;
  }

  // Returns how long the pieces take that are begun in a wait.
  double fill(std::size_t r, double wait) {
    const bool polled = filling_.fill == Fill::polled;
    double spent = 0;
    while (left_[r] > 0) {
      const double piece = std::min(filling_.piece, left_[r]);
      const double ends = spent + piece + filling_.change;
      if (polled ? spent + rounding(r) >= wait : ends > wait + rounding(r)) break;
      spent = ends;
      left_[r] -= piece;
      done_ += piece;
      ++pieces_;
    }
    return spent;
  }
  // The most by which two times differ that would be equal: each is a sum of positive terms, two
  // for each task and piece before it at most, every one of which is rounded once.
  double rounding(std::size_t r) const {
    const double terms = 2.0 * (static_cast<double>(ended_.size()) + pieces_ + 1);
    return 2 * terms * std::numeric_limits<double>::epsilon() * free_[r];
  }

  const Orders& orders_;
  int stages_;
  TaskCosts costs_;
  Filling filling_;
  std::vector<std::size_t> next_;            // of each rank's order
  std::vector<double> free_, waits_, left_;  // of each rank: from when on, how long, work
  std::map<Key, double> ended_;
  double done_ = 0, pieces_ = 0;  // over all ranks
};

}  // namespace

Orders interleaved(int ranks, int chunks, int micro_batches) {
  if (micro_batches % ranks != 0) {
    throw Failure(std::to_string(micro_batches) + " micro-batches on " + std::to_string(ranks) +
                  " ranks: the published interleaved order wants a multiple of the ranks");
  }
  const int all = chunks * micro_batches;
  const auto task = [&](bool backward, int rank, int i) {
    const int turn = i / ranks % chunks;
    const int chunk = backward ? chunks - 1 - turn : turn;
    return Task{backward, i / (ranks * chunks) * ranks + i % ranks, chunk * ranks + rank};
  };
  Orders orders(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    // Of one chunk a rank begins with as many forwards as ranks follow.
    const int follow = ranks - 1 - r;
    const int first = std::min(chunks == 1 ? follow : 2 * follow + (chunks - 1) * ranks, all);
    auto& order = orders[static_cast<std::size_t>(r)];
    for (int i = 0; i < first; ++i) order.push_back(task(false, r, i));
    for (int i = 0; i < all; ++i) {
      if (first + i < all) order.push_back(task(false, r, first + i));
      order.push_back(task(true, r, i));
    }
  }
  return orders;
}

int Bubbles::steps() const {
  // A step's share is a sum of pieces, exact but for rounding: a last step of 1e-9 is none.
  return fitted > 0 ? static_cast<int>(std::ceil(1 / fitted - 1e-9)) : 0;
}

Bubbles bubbles_of(const Orders& orders, int stages, const TaskCosts& costs,
                   const Filling& filling) {
  if (!(filling.piece > 0)) throw Failure("pieces of other work have a size above 0");
  Timeline bare(orders, stages, costs, {}), filled(orders, stages, costs, filling);
  bare.play();
  filled.play();
  const auto n = static_cast<double>(orders.size());
  Bubbles seen;
  seen.step = bare.length();
  seen.slow_down = filled.length() / bare.length() - 1;
  seen.waits = bare.waits();
  double waited = 0;
  for (const double wait : seen.waits) waited += wait;
  seen.share = waited / n / seen.step;
  seen.done = filled.done() / n;
  if (waited > 0) seen.used = seen.done * n / waited;
  if (filling.work > 0) seen.fitted = seen.done / filling.work;
  return seen;
}

double published_share(int ranks, int chunks, int micro_batches) {
  return (ranks - 1.0) / (static_cast<double>(chunks) * micro_batches + ranks - 1.0);
}

const char* name_of(Grain grain) {
  switch (grain) {
    case Grain::operation:
      return "operation";
    case Grain::layer:
      return "layer";
    case Grain::micro_batch:
      return "micro-batch";
  }
  return "";
}

double size_of(Grain grain, const Config& c, double layers) {
  if (grain == Grain::micro_batch) return 1;
  if (grain == Grain::layer) return 1 / layers;
  const double width = c.width, heads = static_cast<double>(c.heads) * c.head_dim();
  const int experts = c.experts > 0 ? c.top_k : 1;  // that a token goes to
  const double products[] = {width * c.qkv_width(), heads * width,
                             width * c.fc1_width(c.hidden) * experts,
                             static_cast<double>(c.hidden) * width * experts,
                             2 * heads * c.sequence};  // scores and what they weigh, one operation
  double all = 0;
  for (const double product : products) all += product;
  return std::ranges::max(products) / all / layers;
}

}  // namespace plumb::model
