#include "model/mail.hpp"

#include "model/rank.hpp"

namespace plumb {
void Mail::send(int to, int tag, const Tensor& x, bool backward) {
  Box& box = way(out_, backward);
  rank_.wait(box.last, Wait::sent, "stage");
  box.x = x;
  for (int i = 0; i < pieces; ++i) {
    box.last = rank_.overlap.issue(Lane::stage_out, [this, &box, to, tag, i] {
      const auto [first, last] = slice(box.x.rows, pieces, i);
      Tensor letter(last - first, box.x.cols);
      std::copy(box.x.row(first), box.x.row(last), letter.values.begin());
      rank_.mesh.pp.send(to, tag, letter);
    });
  }
}

void Mail::expect(int from, int tag, bool backward) {
  Box& box = way(in_, backward);
  if (box.x.size() == 0) {
    const std::size_t tokens = rank_.rows_of(rank_.where.cp).size();
    const std::size_t rows = rank_.l.sp ? rank_.last(tokens) - rank_.first(tokens) : tokens;
    box.x = Tensor(rows, static_cast<std::size_t>(rank_.c.width));
  }
  for (int i = 0; i < pieces; ++i) {
    box.last = rank_.overlap.issue(Lane::stage_in, [this, &box, from, tag, i] {
      const Tensor letter = rank_.mesh.pp.receive(from, tag);
      std::ranges::copy(letter.values, box.x.row(slice(box.x.rows, pieces, i).first));
    });
  }
}

Tensor Mail::take(bool backward) {
  Box& box = way(in_, backward);
  rank_.wait(box.last, Wait::received, "stage");
  return box.x;
}

void Mail::finish() {
  for (const auto* boxes : {&out_, &in_}) {
    for (const Box& box : *boxes) rank_.overlap.wait(box.last);
  }
}

}  // namespace plumb
