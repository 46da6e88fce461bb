// kernels/ring.hpp: attention where keys and values come in turns, in plain loops. It is under test
// against what bounds/operations/ring_attention.hpp promises.
//
// Queries (Q) and keys (K) are those of one sequence that a rank has. Nothing here rounds to a
// format.
//
// TESTED   tests/model/one_rank_test.cpp (bit for bit the promise)
#pragma once

#include "kernels/ops.hpp"
#include "kernels/sees.hpp"

namespace plumb::kernels {

// Packs the key and value columns of qkv.                                 // (Q, 2 kv_heads dim)
Tensor keys_and_values(const Tensor& qkv, const HeadShape& shape);
// Puts them back in their places.                                                       // (Q, F)
Tensor unpacked(const Tensor& keys_and_values, const HeadShape& shape);

// The partial results of a head's queries from the keys that came so far.
struct SoFar {
  Tensor o;                         // sums of P v, not divided yet                    // (Q, dim)
  std::vector<float> largest, sum;  // of scores, and of exponentials about it

  SoFar(std::size_t queries, std::size_t dim);
};
using Positions = std::vector<std::size_t>;

// Which of the keys at hand each query of a sequence sees.
struct Sight {
  const HeadShape& shape;
  std::size_t sequence;
  const Positions& keys;

  bool operator()(std::size_t query, std::size_t key) const {
    return keys[key] <= shape.positions[query] && keys[key] >= shape.first_key(sequence, query);
  }
};

// Turns scores (Q, K) into exponentials about the largest so far, zero out of sight; o waits for
// their product with the values.
void take_in(Tensor& scores, const Sight& sees, SoFar& all);
void take_in_sink(float sink, SoFar& all);
// Writes the block of head and sequence in o (Q, heads dim). Returns L.                   // (Q, 1)
Tensor divided(const SoFar& all, const HeadShape& shape, std::size_t sequence, std::size_t head,
               Tensor& o);

// Turns scores into probabilities again.
void probabilities(Tensor& scores, const Sight& sees, const Tensor& lse);
// Sums of do o, of each query of a head.                                                  // (Q, 1)
Tensor row_products(const Tensor& o, const Tensor& d_o, const HeadShape& shape,
                    std::size_t sequence, std::size_t head);
// dS of a block, from P and dP.                                                           // (Q, K)
Tensor block_gradient(const Tensor& p, Tensor dp, const Tensor& along);
// The probability of the sink in each row.                                                // (Q, 1)
Tensor taken_by_sink(float sink, const Tensor& lse);

}  // namespace plumb::kernels
