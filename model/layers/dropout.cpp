#include "model/layers/dropout.hpp"

#include "model/joints/layers.hpp"
#include "model/state/rounding_key.hpp"

namespace plumb::model {

Tensor dropped(Rank& rank, const std::string& name, const char* kind, Tensor x) {
  if (rank.c.dropout == 0) return x;
  const double rate = fraction(rank.c.dropout);
  const Where where = rank.at(name);
  const bool drops = rank.joints.dropout.drops(where);
  const float factor = drops ? static_cast<float>(1 / (1 - rate)) : 1.0F;
  const std::string of_micro_batch = "m" + std::to_string(where.micro_batch) + "/" + name;
  const std::uint64_t key =
      rank.joints.dropout.key(where, dropout_key(rank.c, rank.step, of_micro_batch));
  const Placement lies = rank.placed(x, Sharding::own_tokens);
  for (const Piece& piece : lies.pieces) {
    for (std::size_t i = 0; i < piece.global.rows; ++i) {
      const std::size_t here = piece.local.row + i;
      const std::size_t drawn = rank.joints.dropout.row(where, piece.global.row + i, here);
      for (std::size_t j = 0; j < x.cols; ++j) {
        const bool kept = !drops || uniform(key, drawn * x.cols + j) >= rate;
        x(here, j) = kept ? x(here, j) * factor : 0.0F;
      }
    }
  }
  if (name.starts_with("embedding")) {
    rank.round_to_stream(x);
    rank.hand_on(name + "/" + kind, x, Sharding::own_tokens, rank.r.stream, rank.on_stream());
  } else {
    rank.round(x);
    rank.hand_on(name + "/" + kind, x, Sharding::own_tokens, rank.r.compute, rank.plain());
  }
  return x;
}

ProbabilityDropout::ProbabilityDropout(const Rank& rank, const std::string& name,
                                       const HeadShape& shape)
    : shape_(shape),
      dropout_(rank.joints.dropout),
      where_(rank.at(name)),
      length_(static_cast<std::size_t>(rank.c.sequence)) {
  rate_ = fraction(rank.c.attention_dropout);
  if (rate_ == 0 || !dropout_.drops(where_)) return;
  drops_ = true;
  heads_ = static_cast<std::size_t>(rank.c.heads);
  first_head_ = rank.first(heads_);
  if (rank.where.cp_size > 1 && rank.l.context == Context::ulysses) {
    first_head_ += shape.heads * static_cast<std::size_t>(rank.where.cp);
  }
  const std::string of_micro_batch = "m" + std::to_string(where_.micro_batch) + "/" + name;
  key_ = dropout_.key(where_, dropout_key(rank.c, rank.step, of_micro_batch));
}

void ProbabilityDropout::thin(Tensor& p, std::size_t sequence, std::size_t head,
                              const Positions& keys) const {
  if (!drops_) return;
  const auto factor = static_cast<float>(1 / (1 - rate_));
  const std::size_t drawn_head = dropout_.head(where_, first_head_ + head, head);
  for (std::size_t i = 0; i < p.rows; ++i) {
    const std::size_t token = sequence * length_ + shape_.positions[i];
    const std::size_t row = dropout_.row(where_, token, sequence * p.rows + i);
    const std::uint64_t first = (row * heads_ + drawn_head) * length_;
    for (std::size_t j = 0; j < p.cols; ++j) {
      p(i, j) = uniform(key_, first + keys[j]) >= rate_ ? p(i, j) * factor : 0.0F;
    }
  }
}

const Tensor& ProbabilityDropout::weighing(Rank& rank, const Tensor& p, std::size_t sequence,
                                           std::size_t head, const Positions& keys,
                                           Tensor& place) const {
  if (!drops_) return p;
  place = p;
  thin(place, sequence, head, keys);
  rank.round(place);
  return place;
}

}  // namespace plumb::model
