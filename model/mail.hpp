// model/mail.hpp: what travels from rank to rank of a group: between the stages of a pipeline
// activations one way, their gradients the other; round a ring keys and values, and their
// gradients.
//
// A rank has one outbox and one inbox for each way. What is in the outbox must have left before
// something else is put there; what is expected lands in the inbox, over what was there.
#pragma once

#include <array>
#include <string>

#include "model/overlap.hpp"

namespace plumb {

class Rank;

class Mail {
 public:
  // `of`: what waits are said to be for.
  struct Route {
    Communicator& group;
    Lane out, in;
    std::string of;
  };
  Mail(Rank& rank, Route route) : rank_(rank), route_(std::move(route)) {}

  void send(int to, int tag, const Tensor& x, bool backward);
  // What comes next that way lands from now on. It must have been sent, or be sent by somebody who
  // does not wait for this rank meanwhile.
  void expect(int from, int tag, bool backward, std::size_t rows, std::size_t cols);
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
  Route route_;
  std::array<Box, 2> out_, in_;
};

}  // namespace plumb
