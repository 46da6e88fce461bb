// model/layers/qkv.hpp: queries, keys and values of this rank's heads, from the residual stream.
//
//   x (T or T / tp, C) -> qkv (T, F / tp);  backward: dqkv -> dx
//
// With a latent, keys and values of all heads come from it:
//   q = x W                                      column-parallel
//   kv = norm(x W_down) W_up                     W_down whole, on every rank; W_up column-parallel
//   the last columns of every key = x W_shared   whole; only these are rotated
// So the gradients of the latent, and of the columns that all heads share, are sums over the
// tensor-parallel ranks, each of which has some heads.
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "model/layers/adapter.hpp"
#include "model/layers/operand.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// The tensors that backward needs. x: as the product of queries sees it.              // (T, C)
struct Qkv {
  Operand x, down, up, shared;
  Adapter adapter;
  Tensor latent;  // before its norm, of this rank's tokens of the stream                 // (.., L)
};

// Runs the layer `name`; x: the output of its first norm.
Tensor qkv_layer(Rank& rank, const std::string& name, Tensor x, Qkv& saved);
Tensor qkv_backward(Rank& rank, const std::string& name, const Qkv& saved, Tensor d_qkv);

}  // namespace plumb::model
