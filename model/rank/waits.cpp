#include "model/rank/waits.hpp"

#include <chrono>

namespace plumb::model {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void Waits::begin(Communicator& pipeline) {
  double nothing = 0;
  pipeline.sum(nothing);
  seen_ = {};
  began_ = now();
}

void Waits::end(Communicator& pipeline, int tag) {
  if (pipeline.rank() > 0) {
    receive(pipeline, 0, tag);
  } else {
    for (int r = 1; r < pipeline.size(); ++r) pipeline.send(r, tag, Tensor(1, 1));
  }
  seen_.pipeline = now() - began_;
}

Tensor Waits::receive(Communicator& pipeline, int from, int tag) {
  const double asked = now();
  Foreseen& foreseen = foreseen_[{from, tag}];
  if (work != nullptr && foreseen.steps > 0) {
    const double arrives = asked + foreseen.seconds / foreseen.steps;
    for (double t = asked; !pipeline.has_arrived(from, tag) && work->piece((arrives - t) / 2);) {
      const double after = now();
      seen_.worked += after - t;
      ++seen_.pieces;
      t = after;
    }
  }
  Tensor message = pipeline.receive(from, tag);
  const double waited = now() - asked;
  if (work == nullptr) {
    foreseen.seconds += waited;
    ++foreseen.steps;
  }
  seen_.waited += waited;
  ++seen_.messages;
  return message;
}

}  // namespace plumb::model
