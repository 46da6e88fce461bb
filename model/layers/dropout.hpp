// model/layers/dropout.hpp: dropout on the way into the residual stream, and of attention's
// probabilities.
//
//   x (T, D): this rank's tokens of the stream -> x / (1 - rate) where an element is kept, else 0
// Masks are drawn from Philox by seed, step, canonical id and element of the whole tensor: the same
// in every layout, and in what backward computes again. The gradient is the same for dy.
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "kernels/ring.hpp"
#include "model/joints/joint.hpp"
#include "model/rank/rank.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// Records its result as m<micro-batch>/<name>/<kind>: out, or grad_in. Without dropout returns x.
Tensor dropped(Rank& rank, const std::string& name, const char* kind, Tensor x);

// Dropout of the probabilities of one module in the micro-batch that the rank works on. The draw of a
// token's probability is that of its number in the micro-batch, its head and its key, in the whole
// model (bounds/operations/attention.cpp).
class ProbabilityDropout {
 public:
  // `shape` outlives it.
  ProbabilityDropout(const Rank& rank, const std::string& module, const HeadShape& shape);

  // Multiplies what is kept of P or dP (Q, K) of a head here, and drops the rest; `keys`: positions
  // in the sequence.
  void thin(Tensor& p, std::size_t sequence, std::size_t head, const Positions& keys) const;
  // Returns P as it weighs values: rounded once more, in `place`; P itself where nothing is dropped.
  const Tensor& weighing(Rank& rank, const Tensor& p, std::size_t sequence, std::size_t head,
                         const Positions& keys, Tensor& place) const;

 private:
  const HeadShape& shape_;
  const decisions::dropout& dropout_;
  Where where_;
  bool drops_ = false;
  double rate_ = 0;
  std::uint64_t key_ = 0;
  std::size_t heads_ = 0, first_head_ = 0, length_;
};

}  // namespace plumb::model
