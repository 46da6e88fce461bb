#include "model/rank/parts.hpp"

#include "kernels/ops.hpp"

namespace plumb::model {
namespace {

constexpr int tag = 2;

Tensor rows_between(const Tensor& x, const Slice& rows) {
  Tensor piece(rows.last - rows.first, x.cols);
  std::copy_n(x.row(rows.first), piece.size(), piece.values.begin());
  return piece;
}

// Writes the sum of a piece over this rank's part of it.
void land(Communicator& ranks, const Format& wire, const Slice& rows, Tensor& x) {
  Tensor total;
  for (int r = 0; r < ranks.size(); ++r) {
    Tensor part = r == ranks.rank() ? rows_between(x, rows) : ranks.receive(r, tag);
    if (r == 0) {
      total = std::move(part);
      continue;
    }
    add_to(total, part);
    round_to_format(total.values, wire);
  }
  std::copy(total.values.begin(), total.values.end(), x.row(rows.first));
}

}  // namespace

SumOfParts::SumOfParts(RankContext& rank, Tensor part, const Format& wire)
    : rank_(rank), x_(std::make_shared<Tensor>(std::move(part))) {
  Communicator& ranks = rank.mesh.tp;
  round_to_format(x_->values, wire);
  const auto piece = [rows = x_->rows](int i) { return slice(rows, pieces, i); };
  const auto sent = std::make_shared<const Tensor>(*x_);
  for (int i = 0; i < pieces; ++i) {
    rank.streams.issue(Stream::parts_out, [&ranks, sent, rows = piece(i)] {
      for (int r = 0; r < ranks.size(); ++r) {
        if (r != ranks.rank()) ranks.send(r, tag, rows_between(*sent, rows));
      }
    });
  }
  for (int i = 0; i < pieces; ++i) {
    last_ = rank.streams.issue(
        Stream::parts_in, [&ranks, x = x_, wire, rows = piece(i)] { land(ranks, wire, rows, *x); });
  }
}

Tensor SumOfParts::take(const std::string& of) {
  rank_.wait(last_, Wait::input_gradient, of);
  return *x_;
}

}  // namespace plumb::model
