// model/rank/offload.hpp: copies between a rank's device and its host while it computes.
//
// TESTED   tests/model/overlap_test.cpp, tests/experiments/races_test.cpp
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "model/rank/context.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// `onto`, of the same size, keeps its content until each piece arrives.
Event transfer(Streams& streams, Stream stream, Tensor from, const std::shared_ptr<Tensor>& onto);

// Inputs of layers, on the host until backward needs them. Each comes back to one of two buffers on
// the device, in turn, which keeps its content until the input arrives.
class OffloadedInputs {
 public:
  explicit OffloadedInputs(RankContext& rank) : rank_(rank) {}

  void park(int layer, Tensor x);  // of the micro-batch that the rank works on, as below
  bool has(int layer) const { return host_.contains(key(layer)); }
  // Sends it back, if it is there and has not been sent.
  void bring_back(int layer);
  // Returns it; waits for it.
  Tensor take(int layer);

 private:
  struct Stay {
    std::shared_ptr<Tensor> x, device;
    Event arrived, back;
  };
  std::pair<int, int> key(int layer) const;

  RankContext& rank_;
  std::map<std::pair<int, int>, Stay> host_;
  std::shared_ptr<Tensor> places_[2];
  std::size_t returned_ = 0;
};

// Tensors on their way to where the optimizer is: on the host if the layout offloads it, else they
// are there already.
class OptimizerTransfers {
 public:
  OptimizerTransfers(RankContext& rank, Stream stream) : rank_(rank), stream_(stream) {}

  // before: makes the content of the place until x comes; asked only if x travels.
  void send(const std::string& name, Tensor x, const std::function<Tensor()>& before);
  // Returns it; waits for it.
  Tensor take(const std::string& name);

 private:
  struct Ride {
    std::shared_ptr<Tensor> x;
    Event arrived;
  };
  RankContext& rank_;
  Stream stream_;
  std::map<std::string, Ride> rides_;
};

}  // namespace plumb::model
