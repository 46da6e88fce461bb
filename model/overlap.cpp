#include "model/overlap.hpp"

#include <cmath>
#include <string>

#include "number/philox.hpp"

namespace plumb::model {
namespace {

class Punctual final : public Communicator {
 public:
  Punctual(Communicator& group, Overlap& overlap) : group_(group), overlap_(overlap) {}

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  void sum(std::span<float> x, const Format& wire) override { before().sum(x, wire); }
  void sum(double& x) override { before().sum(x); }
  void max(std::span<float> x) override { before().max(x); }
  Tensor gather_rows(const Tensor& x) override { return before().gather_rows(x); }
  std::vector<Tensor> exchange(const std::vector<Tensor>& to) override {
    return before().exchange(to);
  }
  void send(int to, int tag, const Tensor& x) override { group_.send(to, tag, x); }
  Tensor receive(int from, int tag) override { return before().receive(from, tag); }

 private:
  Communicator& before() {
    if (size() > 1) overlap_.give();
    return group_;
  }

  Communicator& group_;
  Overlap& overlap_;
};

}  // namespace

Overlap::Overlap(int seed, int rank)
    : on_(seed > 0),
      key_(key_of(static_cast<std::uint64_t>(seed), "overlap/" + std::to_string(rank))) {
  // The ring's lanes take draws from far on, so that the schedules of earlier seeds stay the same.
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const bool of_ring = i >= static_cast<std::size_t>(Lane::ring_out);
    queues_[i].slowness = uniform(key_, of_ring ? (std::uint64_t(1) << 40) + i : draws_++);
  }
}

Event Overlap::issue(Lane lane, std::function<void()> step) {
  Queue& q = queue(lane);
  q.steps.push_back({on_ ? drawn(q) : 0, std::move(step)});
  const Event event{lane, q.happened + static_cast<long>(q.steps.size())};
  if (on_) {
    point();
  } else {
    wait(event);
  }
  return event;
}

// Draws a number below 128, short and long ones alike: 2^u - 1, u uniform in [0, 7) on the slowest
// lane.
int Overlap::drawn(const Queue& q) {
  return static_cast<int>(std::exp2(7 * q.slowness * uniform(key_, draws_++)) - 1);
}

void Overlap::point() {
  for (Queue& q : queues_) {
    if (!q.steps.empty() && q.steps.front().points-- == 0) run_first(q);
  }
}

void Overlap::run_first(Queue& q) {
  const Step first = std::move(q.steps.front());
  q.steps.pop_front();
  first.happens();
  ++q.happened;
}

bool Overlap::done(const Event& event) const {
  return queues_[static_cast<std::size_t>(event.lane)].happened >= event.number;
}

void Overlap::wait(const Event& event) {
  while (!done(event)) run_first(queue(event.lane));
}

void Overlap::give() {
  for (const Lane lane : {Lane::sums_out, Lane::shares_out, Lane::stage_out, Lane::ring_out}) {
    while (!queue(lane).steps.empty()) run_first(queue(lane));
  }
}

void Overlap::finish() {
  give();
  for (Queue& q : queues_) {
    while (!q.steps.empty()) run_first(q);
  }
}

Groups punctual(Groups& groups, Overlap& overlap) {
  Groups all;
  for (auto& group : groups) all.push_back(std::make_unique<Punctual>(*group, overlap));
  return all;
}

}  // namespace plumb::model
