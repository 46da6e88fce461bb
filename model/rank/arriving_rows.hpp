// model/rank/arriving_rows.hpp: rows that come from the ranks of a group while this rank works on those
// that are there: tokens that sequence-parallel ranks gather, copies of tokens that experts take.
//
// They lie in a room that is used again and again: until a rank's rows arrive, what was there before
// stands in their place, or zeros where the room has another shape.
//
// TESTED   tests/model/overlap_test.cpp, tests/experiments/races_test.cpp
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/rank/context.hpp"
#include "model/sees.hpp"
#include "number/product.hpp"

namespace plumb::model {

class ArrivingRows {
 public:
  struct Route {
    Communicator& group;
    Wait what;  // that is waited for
    int tag;
  };
  using Rows = std::shared_ptr<const Tensor>;
  // to: what each rank of the group gets; `from`: how many rows each of them sends here, all of one
  // width; `room`: of the time before, or empty.
  ArrivingRows(RankContext& rank, const Route& route, std::vector<Rows> to,
               const std::vector<std::size_t>& from, std::shared_ptr<Tensor>& room);
  // The place of the rows of a rank; waits for them. `of`: the module that asks.
  View<float> of_rank(int rank, const std::string& of);
  // All rows, by rank, when all have come.
  const Tensor& all();

 private:
  RankContext& rank_;
  Route route_;
  std::shared_ptr<Tensor> room_;     // what has not arrived is written later, whoever holds it then
  std::vector<std::size_t> begins_;  // of each rank's rows, and the end
  std::vector<Event> arrived_;       // by rank
};

}  // namespace plumb::model
