// model/rank/streams.hpp: transfers that go on while a rank computes: gradients that are summed,
// parameters that are gathered, activations that travel between stages or to the host.
//
// A stream is a queue of steps that happen one after another, each at a point drawn by a seed.
// Every operation that is computed and every step that is issued is a point. Waiting for an event
// makes all steps of its stream up to it happen at once. So a run repeats bit by bit, whatever
// threads do, and the effect of a missing wait depends on the seed alone. Without a seed a step
// happens where it is issued.
//
// No rank waits for itself: before it waits for others it flushes everything that they may wait
// for. If the program that does each step at its issue comes to an end, every interleaving does.
//
// TESTED   tests/model/overlap_test.cpp
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>

#include "model/rank/arrival.hpp"
#include "model/sees.hpp"
#include "world/world.hpp"

namespace plumb::model {

// Others wait for the steps of streams called .._out.
enum class Stream {
  sums_out,
  sums_in,
  shares_out,
  shares_in,
  stage_out,
  stage_in,
  to_host,
  to_device,
  ring_out,
  ring_in,
  parts_out,
  parts_in
};

// A bucket or a tensor travels in this many pieces, one after another.
inline constexpr int pieces = 4;

// The steps of a stream up to this number; 0: nothing to wait for.
struct Event {
  Stream stream = Stream::sums_in;
  long number = 0;
};

class Streams {
 public:
  // seed 0: nothing overlaps. Each rank draws for itself.
  Streams(int seed, int rank);

  bool on() const { return on_; }
  Event issue(Stream stream, std::function<void()> step);
  // A point: of each stream at most one step happens.
  void progress();
  bool done(const Event& event) const;
  void wait(const Event& event);
  // flush(): makes all steps happen on the streams that others wait for. finish(): on all streams.
  void flush();
  void finish();

 private:
  struct Step {
    int points;  // points that pass before it happens, once it is the first
    std::function<void()> happens;
  };
  struct Queue {
    std::deque<Step> steps;
    long happened = 0;
    double slowness = 0;
  };
  Queue& queue(Stream stream) { return queues_[static_cast<std::size_t>(stream)]; }
  static void run_first(Queue& q);
  int drawn(Stream stream);

  bool on_;
  std::uint64_t key_, draws_ = 0, draws_of_parts_ = 0;
  std::array<Queue, 12> queues_;
};

// Wraps the groups of a rank, called as a mesh names them: it flushes (give) before each wait, and
// `came` is told of, and may touch, what others have sent (all but sums in double).
using Came = std::function<void(const Arrival&, std::span<float>)>;
Groups flushing_before_waits(Groups& groups, Streams& streams, Came came);

}  // namespace plumb::model
