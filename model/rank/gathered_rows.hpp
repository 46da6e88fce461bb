// model/rank/gathered_rows.hpp: the rows of all sequence-parallel ranks, which come while a rank
// multiplies those that are there.
//
// They lie in a room that layers use one after another: until a rank's rows arrive, those of an
// earlier layer stand in their place.
//
// TESTED   tests/model/overlap_test.cpp, tests/experiments/races_test.cpp
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/rank/context.hpp"
#include "model/sees.hpp"

namespace plumb::model {

class GatheredRows {
 public:
  // own: this rank's rows; `room`: of the layer before, or empty.
  GatheredRows(RankContext& rank, const Tensor& own, std::shared_ptr<Tensor>& room);
  // The place of the rows of a rank; waits for them. `of`: the layer that asks.
  View<float> of_rank(int rank, const std::string& of);
  // All rows, when all have come.
  const Tensor& all();

 private:
  RankContext& rank_;
  std::shared_ptr<Tensor> room_;  // what has not arrived is written later, whoever holds it then
  std::size_t each_;              // rows of a rank
  std::vector<Event> arrived_;    // by rank
};

}  // namespace plumb::model
