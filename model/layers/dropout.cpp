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
  rank.round(x);
  rank.hand_on(name + "/" + kind, x, Sharding::own_tokens, rank.r.compute, rank.plain());
  return x;
}

}  // namespace plumb::model
