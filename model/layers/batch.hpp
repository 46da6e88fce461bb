// model/layers/batch.hpp: what a rank reads of a micro-batch: its own context's tokens.
//
// TESTED   tests/model/one_rank_test.cpp
#pragma once

#include "model/sees.hpp"
#include "number/matrix.hpp"

namespace plumb::model {

// The targets of a head.
struct Targets {
  Tensor labels, mask;  // (T, 1) each
  float count = 0;      // counted tokens of the whole step
};
struct Batch {
  int number = 0;            // of the micro-batch, global
  Tensor ids;                // (T, 1)
  Targets next, after_next;  // tokens; the latter for an extra head
  Tensor positions;          // within documents, where these are packed               // (T, 1)
};

}  // namespace plumb::model
