// model/rank/channel.hpp: point-to-point messages within a group: between the stages of a pipeline
// activations one way and their gradients the other; round a ring keys and values and their
// gradients.
//
// A rank has one outbox and one inbox for each way. The outbox must have been sent before it is
// filled again; a message that is expected is written into the inbox, over what was there.
//
// TESTED   tests/model/overlap_test.cpp, tests/experiments/races_test.cpp
#pragma once

#include <array>
#include <string>

#include "model/rank/context.hpp"
#include "model/sees.hpp"

namespace plumb::model {

class Channel {
 public:
  // `of`: the name under which waits ask their joint.
  struct Route {
    Communicator& group;
    Stream out, in;
    std::string of;
    Waits* waits = nullptr;  // that its messages are told to; null: none
  };
  Channel(RankContext& rank, Route route) : rank_(rank), route_(std::move(route)) {}

  void send(int to, int tag, const Tensor& x, bool backward);
  // Writes the next message that way into the inbox from now on. It must have been sent, or be sent
  // by a rank that does not wait for this one meanwhile.
  void expect(int from, int tag, bool backward, std::size_t rows, std::size_t cols);
  // Returns a copy of the message; waits for it.
  Tensor take(bool backward);
  // Waits until everything has been sent and received.
  void finish();

 private:
  Tensor receive(int from, int tag);

  struct Box {
    Tensor x;
    Event last;  // that concerns it
  };
  static Box& way(std::array<Box, 2>& boxes, bool backward) { return boxes[backward ? 1 : 0]; }

  RankContext& rank_;
  Route route_;
  std::array<Box, 2> out_, in_;
};

}  // namespace plumb::model
