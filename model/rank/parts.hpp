// model/rank/parts.hpp: a sum of the tensor-parallel ranks' parts that goes on while a rank computes.
//
// Rows travel in pieces. Sums that have arrived take the place of this rank's own part; until then
// that part stands there. Bits are those of the world's sum.
//
// TESTED   tests/model/overlap_test.cpp, tests/experiments/races_test.cpp
#pragma once

#include <memory>
#include <string>

#include "model/rank/context.hpp"
#include "model/sees.hpp"

namespace plumb::model {

class SumOfParts {
 public:
  // Several ranks, streams that overlap; parts of one shape.
  SumOfParts(RankContext& rank, Tensor part, const Format& wire);
  // Returns the sum; waits for it. `of`: the layer that asks.
  Tensor take(const std::string& of);

 private:
  RankContext& rank_;
  std::shared_ptr<Tensor> x_;  // what has not arrived is written later, whoever holds it then
  Event last_;
};

}  // namespace plumb::model
