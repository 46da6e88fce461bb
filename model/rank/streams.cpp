#include "model/rank/streams.hpp"

#include <cmath>
#include <string>

#include "number/philox.hpp"

namespace plumb::model {
namespace {

class FlushingCommunicator final : public Communicator {
 public:
  FlushingCommunicator(Communicator& group, Streams& streams) : group_(group), streams_(streams) {}

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
    if (size() > 1) streams_.flush();
    return group_;
  }

  Communicator& group_;
  Streams& streams_;
};

}  // namespace

Streams::Streams(int seed, int rank)
    : on_(seed > 0),
      key_(key_of(static_cast<std::uint64_t>(seed), "overlap/" + std::to_string(rank))) {
  // The ring's streams take draws from far on, so that the schedules of earlier seeds stay the
  // same.
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const bool of_ring = i >= static_cast<std::size_t>(Stream::ring_out);
    queues_[i].slowness = uniform(key_, of_ring ? (std::uint64_t(1) << 40) + i : draws_++);
  }
}

Event Streams::issue(Stream stream, std::function<void()> step) {
  Queue& q = queue(stream);
  q.steps.push_back({on_ ? drawn(q) : 0, std::move(step)});
  const Event event{stream, q.happened + static_cast<long>(q.steps.size())};
  if (on_) {
    progress();
  } else {
    wait(event);
  }
  return event;
}

// Draws a number below 128, short and long ones alike: 2^u - 1, u uniform in [0, 7) on the slowest
// stream.
int Streams::drawn(const Queue& q) {
  return static_cast<int>(std::exp2(7 * q.slowness * uniform(key_, draws_++)) - 1);
}

void Streams::progress() {
  for (Queue& q : queues_) {
    if (!q.steps.empty() && q.steps.front().points-- == 0) run_first(q);
  }
}

void Streams::run_first(Queue& q) {
  const Step first = std::move(q.steps.front());
  q.steps.pop_front();
  first.happens();
  ++q.happened;
}

bool Streams::done(const Event& event) const {
  return queues_[static_cast<std::size_t>(event.stream)].happened >= event.number;
}

void Streams::wait(const Event& event) {
  while (!done(event)) run_first(queue(event.stream));
}

void Streams::flush() {
  for (const Stream stream :
       {Stream::sums_out, Stream::shares_out, Stream::stage_out, Stream::ring_out}) {
    while (!queue(stream).steps.empty()) run_first(queue(stream));
  }
}

void Streams::finish() {
  flush();
  for (Queue& q : queues_) {
    while (!q.steps.empty()) run_first(q);
  }
}

Groups flushing_before_waits(Groups& groups, Streams& streams) {
  Groups all;
  for (auto& group : groups) all.push_back(std::make_unique<FlushingCommunicator>(*group, streams));
  return all;
}

}  // namespace plumb::model
