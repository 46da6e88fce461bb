// model/mail.hpp: what travels between the stages of a pipeline: activations one way, their
// gradients the other.
//
// A rank has one outbox and one inbox for each way. What is in the outbox must have left before
// something else is put there; what is expected lands in the inbox, over what was there.
#pragma once

#include <array>

#include "model/overlap.hpp"

namespace plumb {

class Rank;

class Mail {
 public:
  explicit Mail(Rank& rank) : rank_(rank) {}

  void send(int to, int tag, const Tensor& x, bool backward);
  // What comes next that way lands from now on. It must have been sent, or be sent by somebody who
  // does not wait for this rank meanwhile.
  void expect(int from, int tag, bool backward);
  // A copy of it; waits for it.
  Tensor take(bool backward);
  // All has left and landed.
  void finish();

 private:
  struct Box {
    Tensor x;
    Event last;  // that concerns it
  };
  static Box& way(std::array<Box, 2>& boxes, bool backward) { return boxes[backward ? 1 : 0]; }

  Rank& rank_;
  std::array<Box, 2> out_, in_;
};

}  // namespace plumb
