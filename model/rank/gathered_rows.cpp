#include "model/rank/gathered_rows.hpp"

namespace plumb::model {

static constexpr int tag_of_rows = 3;

GatheredRows::GatheredRows(RankContext& rank, const Tensor& own, std::shared_ptr<Tensor>& room)
    : rank_(rank), each_(own.rows) {
  Communicator& ranks = rank.mesh.tp;
  const auto n = static_cast<std::size_t>(ranks.size());
  if (!room || room->rows != n * own.rows || room->cols != own.cols) {
    room = std::make_shared<Tensor>(n * own.rows, own.cols);
  }
  room_ = room;
  const auto mine = static_cast<std::size_t>(ranks.rank());
  std::ranges::copy(own.values, room_->row(mine * each_));
  rank.streams.issue(Stream::parts_out, [&ranks, sent = own] {
    for (int r = 0; r < ranks.size(); ++r) {
      if (r != ranks.rank()) ranks.send(r, tag_of_rows, sent);
    }
  });
  arrived_.resize(n);
  for (int step = 1; step < ranks.size(); ++step) {
    const int from = (ranks.rank() + step) % ranks.size();
    const auto place = static_cast<std::size_t>(from) * each_;
    arrived_[static_cast<std::size_t>(from)] =
        rank.streams.issue(Stream::parts_in, [&ranks, x = room_, from, place] {
          std::ranges::copy(ranks.receive(from, tag_of_rows).values, x->row(place));
        });
  }
}

View<float> GatheredRows::of_rank(int rank, const std::string& of) {
  const auto r = static_cast<std::size_t>(rank);
  if (rank != rank_.mesh.tp.rank()) rank_.wait(arrived_[r], Wait::gathered_rows, of);
  return rows(view(*room_), r * each_, (r + 1) * each_);
}

const Tensor& GatheredRows::all() {
  for (const Event& event : arrived_) rank_.streams.wait(event);
  return *room_;
}

}  // namespace plumb::model
