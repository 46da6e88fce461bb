// model/joints/wait.hpp: what a rank waits for.
//
// TESTED   tests/model/overlap_test.cpp
#pragma once

namespace plumb::model {

// The events that a rank waits for before it goes on; `of` is the module that the joint is asked
// for.
enum class Wait {
  gradient,        // the sum, before the optimizer takes it; of: the gradient
  bucket_left,     // another bucket, before its outbox is filled; of: the first gradient there
  input_gradient,  // summed over tensor-parallel ranks, before it is used; of: the layer
  gathered_rows,   // tokens of a sequence-parallel rank, before a product takes them; of: the layer
  dispatched,      // copies of another rank's tokens, before experts take them; of: the dispatch
  parameter,       // gathered ahead, before its layer takes it; of: the parameter
  sent,            // the outbox's content, before it is filled again; of: stage or ring
  received,        // the input of a stage or a turn, before it starts; of: stage or ring
  parked,          // a layer's input is on the host, before it is sent back; of: the layer
  brought_back,    // and is back, before the layer's backward; of: the layer
  gradient_on_host,  // before the optimizer takes it there; of: the parameter
  parameter_back,    // from there, before it is used again; of: the parameter
};

}  // namespace plumb::model
