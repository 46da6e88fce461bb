// model/rank/gathering.hpp: gathers parameters of which each rank has a share (ZeRO-3) for the
// layer that needs them, and those of the next layer while it computes.
//
// There are buffers for two layers, in turn: a layer's parameters overwrite those of the layer
// before the last.
//
// TESTED   tests/model/overlap_test.cpp, tests/experiments/races_test.cpp
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/rank/context.hpp"
#include "model/sees.hpp"
#include "model/spec/config.hpp"
#include "trace/trace.hpp"

namespace plumb::model {

class Gathering {
 public:
  // `state`: of the rank, with its shares.
  Gathering(RankContext& rank, const Values& state) : rank_(rank), state_(state) {}

  // Sends the shares of a layer of this rank. Every data-parallel rank asks in the same order.
  void prefetch(int layer);
  // Returns the whole of this rank's slice; waits for it. Valid until let_go() of its layer.
  const Tensor& whole(const std::string& parameter);
  // Frees the buffers of a layer. Layer -1: the parameters outside the layers.
  void let_go(int layer);

 private:
  struct Room {
    Tensor whole;
    Tensor shares;   // of all ranks with their padding, where the layout has some
    std::string of;  // the parameter in it; empty: none
    bool ahead = false;
    Event landed;
  };
  void set_out(Room& room, const Parameter& p);

  RankContext& rank_;
  const Values& state_;
  std::vector<Parameter> parameters_;
  std::map<std::string, Room> rooms_;
};

}  // namespace plumb::model
