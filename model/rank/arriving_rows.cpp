#include "model/rank/arriving_rows.hpp"

namespace plumb::model {

ArrivingRows::ArrivingRows(RankContext& rank, const Route& route, std::vector<Rows> to,
                           const std::vector<std::size_t>& from, std::shared_ptr<Tensor>& room)
    : rank_(rank), route_(route), begins_{0}, arrived_(from.size()) {
  for (const std::size_t rows : from) begins_.push_back(begins_.back() + rows);
  Communicator& ranks = route.group;
  const auto mine = static_cast<std::size_t>(ranks.rank());
  const Tensor& own = *to[mine];
  if (!room || room->rows != begins_.back() || room->cols != own.cols) {
    room = std::make_shared<Tensor>(begins_.back(), own.cols);
  }
  room_ = room;
  std::ranges::copy(own.values, room_->row(begins_[mine]));
  const int tag = route.tag;
  rank.streams.issue(Stream::parts_out, [&ranks, to = std::move(to), tag] {
    for (int r = 0; r < ranks.size(); ++r) {
      if (r != ranks.rank()) ranks.send(r, tag, *to[static_cast<std::size_t>(r)]);
    }
  });
  for (int step = 1; step < ranks.size(); ++step) {
    const int other = (ranks.rank() + step) % ranks.size();
    const std::size_t place = begins_[static_cast<std::size_t>(other)];
    arrived_[static_cast<std::size_t>(other)] =
        rank.streams.issue(Stream::parts_in, [&ranks, x = room_, other, place, tag] {
          std::ranges::copy(ranks.receive(other, tag).values, x->row(place));
        });
  }
}

View<float> ArrivingRows::of_rank(int rank, const std::string& of) {
  const auto r = static_cast<std::size_t>(rank);
  if (rank != route_.group.rank()) rank_.wait(arrived_[r], route_.what, of);
  return rows(view(*room_), begins_[r], begins_[r + 1]);
}

const Tensor& ArrivingRows::all() {
  for (const Event& event : arrived_) rank_.streams.wait(event);
  return *room_;
}

}  // namespace plumb::model
