// model/gathering.hpp: parameters of which each rank has a share, made whole for the layer that
// needs them (ZeRO-3), and those of the next layer while it computes.
//
// There is room for two layers, in turn: a layer's parameters come to where those of the layer
// before the last were.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/config.hpp"
#include "model/overlap.hpp"

namespace plumb {

class Rank;

class Gathering {
 public:
  explicit Gathering(Rank& rank) : rank_(rank) {}

  // The parameters of a layer of this rank set out. Every data-parallel rank asks in the same
  // order.
  void prefetch(int layer);
  // The whole of this rank's slice; waits for it. Valid until its layer is let go.
  const Tensor& whole(const std::string& parameter);
  // Layer -1: what is outside the layers.
  void let_go(int layer);

 private:
  struct Room {
    Tensor whole;
    std::string of;  // empty: nobody's
    bool ahead = false;
    Event landed;
  };
  void set_out(Room& room, const Parameter& p);

  Rank& rank_;
  std::vector<Parameter> parameters_;
  std::map<std::string, Room> rooms_;
};

}  // namespace plumb
