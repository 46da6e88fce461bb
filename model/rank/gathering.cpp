#include "model/rank/gathering.hpp"

#include "model/rank/shares.hpp"

namespace plumb::model {
namespace {

// Layers 0, 2, 4 ... share buffers, and so do the others.
std::string room_of(const std::string& parameter) {
  const int layer = layer_of(parameter);
  if (layer < 0) return parameter;
  return (layer % 2 == 0 ? "even" : "odd") + parameter.substr(parameter.find('.', 7));
}

}  // namespace

void Gathering::prefetch(int layer) {
  if (rank_.l.zero < 3) return;
  if (parameters_.empty()) parameters_ = parameters(rank_.c);
  for (const Parameter& p : parameters_) {
    if (layer_of(p.name) != layer || !rank_.holds(p)) continue;
    // Short copies of these are made once a step, for all products.
    const OperandCasts* casts = rank_.casts_of(p.name);
    const bool copied = casts != nullptr && casts->all_of_weights();
    if (copied && p.cols > 1 && !p.name.ends_with(".router.weight")) continue;
    Room& room = rooms_[room_of(p.name)];
    set_out(room, p);
    room.ahead = true;
  }
}

const Tensor& Gathering::whole(const std::string& parameter) {
  Room& room = rooms_[room_of(parameter)];
  if (room.of != parameter) {
    set_out(room, parameter_of(rank_.c, parameter));
    room.ahead = false;
  }
  if (room.ahead) {
    rank_.wait(room.landed, Wait::parameter, parameter);
  } else {
    rank_.streams.wait(room.landed);
  }
  return room.whole;
}

void Gathering::let_go(int layer) {
  for (auto& [name, room] : rooms_) {
    if (layer_of(room.of) == layer) room.of.clear();
  }
}

void Gathering::set_out(Room& room, const Parameter& p) {
  const LocalShape shape = local_shape(rank_, p);
  room.of = p.name;
  const Tensor& share = *state_.at(p.name + "/param");
  if (!rank_.streams.on()) {  // the world's own gathering
    room.whole = gathered(rank_, share, p);
    return;
  }
  if (room.whole.size() == 0) room.whole = Tensor(shape.rows, shape.cols);
  Communicator& sharers = rank_.sharers_of(p.name);
  const auto own = rank_.l.padded
                       ? std::make_shared<const Tensor>(padded(rank_, share, p))
                       : std::shared_ptr<const Tensor>(std::shared_ptr<const Tensor>(), &share);
  Tensor& to = rank_.l.padded ? room.shares : room.whole;
  if (rank_.l.padded) to = Tensor(own->size() * static_cast<std::size_t>(sharers.size()), 1);
  rank_.streams.issue(Stream::shares_out, [&sharers, own] {
    for (int r = 0; r < sharers.size(); ++r) {
      if (r != sharers.rank()) sharers.send(r, 1, *own);
    }
  });
  const auto end = std::make_shared<std::size_t>(0);  // of the elements that have arrived
  for (int r = 0; r < sharers.size(); ++r) {
    const auto land = [&sharers, own, end, r, &to] {
      const Tensor theirs = r == sharers.rank() ? *own : sharers.receive(r, 1);
      // A wrong share leaves holes, and nothing is written beyond the end.
      const std::size_t n = std::min(theirs.size(), to.size() - *end);
      std::copy_n(theirs.values.begin(), n, to.values.begin() + static_cast<std::ptrdiff_t>(*end));
      *end += n;
    };
    room.landed = rank_.streams.issue(Stream::shares_in, land);
  }
  if (!rank_.l.padded) return;
  room.landed = rank_.streams.issue(Stream::shares_in, [this, &room, p] {
    room.whole.values = without_padding(rank_, room.shares, p).values;
  });
}

}  // namespace plumb::model
