#include "model/rank/channel.hpp"

#include "bounds/operation.hpp"

namespace plumb::model {

void Channel::send(int to, int tag, const Tensor& x, bool backward) {
  Box& box = way(out_, backward);
  rank_.wait(box.last, Wait::sent, route_.of);
  box.x = x;
  for (int i = 0; i < pieces; ++i) {
    box.last = rank_.streams.issue(route_.out, [this, &box, to, tag, i] {
      const auto [first, last] = slice(box.x.rows, pieces, i);
      Tensor message(last - first, box.x.cols);
      std::copy(box.x.row(first), box.x.row(last), message.values.begin());
      route_.group.send(to, tag, message);
    });
  }
}

void Channel::expect(int from, int tag, bool backward, std::size_t rows, std::size_t cols) {
  Box& box = way(in_, backward);
  // Messages of other lengths find what fits of the one before.
  if (box.x.rows != rows || box.x.cols != cols) {
    box.x.values.resize(rows * cols, 0.0F);
    box.x.rows = rows;
    box.x.cols = cols;
  }
  for (int i = 0; i < pieces; ++i) {
    box.last = rank_.streams.issue(route_.in, [this, &box, from, tag, i] {
      const Tensor message = receive(from, tag);
      std::ranges::copy(message.values, box.x.row(slice(box.x.rows, pieces, i).first));
    });
  }
}

Tensor Channel::receive(int from, int tag) {
  if (route_.waits == nullptr) return route_.group.receive(from, tag);
  return route_.waits->receive(route_.group, from, tag);
}

Tensor Channel::take(bool backward) {
  Box& box = way(in_, backward);
  rank_.wait(box.last, Wait::received, route_.of);
  return box.x;
}

void Channel::finish() {
  for (const auto* boxes : {&out_, &in_}) {
    for (const Box& box : *boxes) rank_.streams.wait(box.last);
  }
}

}  // namespace plumb::model
