// model/layers/router.hpp: chooses the experts of each token, and their weights.
//
//   x (T, D): this rank's tokens of the stream -> logits (T, E) in FP32, k experts a token
//
// Every tensor-parallel rank holds the router whole; sequence- and context-parallel ranks rate
// their own tokens, and all of them learn of all choices.
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "kernels/experts.hpp"
#include "model/rank/rank.hpp"
#include "model/sees.hpp"

namespace plumb::model {

struct Routed {
  Tensor x;                // (T / cp sp, D)
  Ratings own;             // of this rank's tokens
  Tensor choices;          // of them                                // (T / cp sp, k)
  Tensor p;                // of this context's tokens               // (T / cp, E)
  Tensor context_choices;  // of these                               // (T / cp, k)
  Copies copies;           // of these
  Tensor all_choices;      // of all tokens of the micro-batch       // (T, k)
  Tensor count;            // copies that each expert takes of all   // (E, 1)
};

// Moves each expert's bias at the end of a step, by its copies summed over all micro-batches.
void balance_experts(Rank& rank);

Routed router_layer(Rank& rank, const std::string& name, const Tensor& x);
// dp (T / cp sp, E): gradient of the probabilities. Returns dx.
Tensor router_backward(Rank& rank, const std::string& name, const Routed& routed, const Tensor& dp);

}  // namespace plumb::model
