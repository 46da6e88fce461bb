#include "model/mail.hpp"

#include "model/rank.hpp"

namespace plumb::model {

void Mail::send(int to, int tag, const Tensor& x, bool backward) {
  Box& box = way(out_, backward);
  rank_.wait(box.last, Wait::sent, route_.of);
  box.x = x;
  for (int i = 0; i < pieces; ++i) {
    box.last = rank_.overlap.issue(route_.out, [this, &box, to, tag, i] {
      const auto [first, last] = slice(box.x.rows, pieces, i);
      Tensor letter(last - first, box.x.cols);
      std::copy(box.x.row(first), box.x.row(last), letter.values.begin());
      route_.group.send(to, tag, letter);
    });
  }
}

void Mail::expect(int from, int tag, bool backward, std::size_t rows, std::size_t cols) {
  Box& box = way(in_, backward);
  if (box.x.size() == 0) box.x = Tensor(rows, cols);
  for (int i = 0; i < pieces; ++i) {
    box.last = rank_.overlap.issue(route_.in, [this, &box, from, tag, i] {
      const Tensor letter = route_.group.receive(from, tag);
      std::ranges::copy(letter.values, box.x.row(slice(box.x.rows, pieces, i).first));
    });
  }
}

Tensor Mail::take(bool backward) {
  Box& box = way(in_, backward);
  rank_.wait(box.last, Wait::received, route_.of);
  return box.x;
}

void Mail::finish() {
  for (const auto* boxes : {&out_, &in_}) {
    for (const Box& box : *boxes) rank_.overlap.wait(box.last);
  }
}

}  // namespace plumb::model
