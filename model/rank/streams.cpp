#include "model/rank/streams.hpp"

#include <cmath>
#include <memory>
#include <string>

#include "model/spec/mesh.hpp"
#include "number/philox.hpp"

namespace plumb::model {
namespace {

// Streams that came later take draws from far on, so that the schedules of earlier seeds stay the
// same: slowness of the ring's and of parts', each draw of parts'.
constexpr std::uint64_t far = std::uint64_t(1) << 40;

class FlushingCommunicator final : public Communicator {
 public:
  FlushingCommunicator(Communicator& group, std::string_view axis, Streams& streams,
                       std::shared_ptr<const Came> came)
      : group_(group), axis_(axis), streams_(streams), came_(std::move(came)) {}

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  void sum(std::span<float> x, const Format& wire) override {
    before().sum(x, wire);
    came(Way::sum, -1, 1, x);
  }
  void sum(double& x) override { before().sum(x); }
  void max(std::span<float> x) override {
    before().max(x);
    came(Way::max, -1, 1, x);
  }
  Tensor gather_rows(const Tensor& x) override {
    Tensor all = before().gather_rows(x);
    came(Way::gather, -1, all.rows, all.values);
    return all;
  }
  std::vector<Tensor> exchange(const std::vector<Tensor>& to) override {
    std::vector<Tensor> all = before().exchange(to);
    for (int from = 0; from < size(); ++from) {
      Tensor& x = all[static_cast<std::size_t>(from)];
      if (from != rank()) came(Way::exchange, from, x.rows, x.values);
    }
    return all;
  }
  void send(int to, int tag, const Tensor& x) override { group_.send(to, tag, x); }
  Tensor receive(int from, int tag) override {
    Tensor x = before().receive(from, tag);
    came(Way::message, from, x.rows, x.values);
    return x;
  }
  bool has_arrived(int from, int tag) override { return before().has_arrived(from, tag); }

 private:
  void came(Way way, int from, std::size_t rows, std::span<float> x) {
    if (size() > 1 && !x.empty()) (*came_)({way, axis_, from, rows, x.size() / rows}, x);
  }
  Communicator& before() {
    if (size() > 1) streams_.flush();
    return group_;
  }

  Communicator& group_;
  std::string_view axis_;
  Streams& streams_;
  std::shared_ptr<const Came> came_;
};

}  // namespace

Streams::Streams(int seed, int rank)
    : on_(seed > 0),
      key_(key_of(static_cast<std::uint64_t>(seed), "overlap/" + std::to_string(rank))) {
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const bool late = i >= static_cast<std::size_t>(Stream::ring_out);
    queues_[i].slowness = uniform(key_, late ? far + i : draws_++);
  }
}

Event Streams::issue(Stream stream, std::function<void()> step) {
  Queue& q = queue(stream);
  q.steps.push_back({on_ ? drawn(stream) : 0, std::move(step)});
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
int Streams::drawn(Stream stream) {
  const std::uint64_t draw = stream >= Stream::parts_out ? 2 * far + draws_of_parts_++ : draws_++;
  return static_cast<int>(std::exp2(7 * queue(stream).slowness * uniform(key_, draw)) - 1);
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
  for (const Stream stream : {Stream::sums_out, Stream::shares_out, Stream::stage_out,
                              Stream::ring_out, Stream::parts_out}) {
    while (!queue(stream).steps.empty()) run_first(queue(stream));
  }
}

void Streams::finish() {
  flush();
  for (Queue& q : queues_) {
    while (!q.steps.empty()) run_first(q);
  }
}

Groups flushing_before_waits(Groups& groups, Streams& streams, Came came) {
  const auto told = std::make_shared<const Came>(std::move(came));
  Groups all;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    all.push_back(
        std::make_unique<FlushingCommunicator>(*groups[i], axes_of_mesh.at(i), streams, told));
  }
  return all;
}

}  // namespace plumb::model
