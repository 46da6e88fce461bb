// world/world.hpp: how ranks talk. Collectives run in a stated order, so that runs repeat bit by
// bit.
//
// Ranks are threads here. Every collective is called by all ranks of a group, in the same order.
// If one rank throws, the others leave their next collective with RankLost.
// TESTED   tests/world/threads_test.cpp
#pragma once

#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

#include "bounds/number/format.hpp"
#include "bounds/number/matrix.hpp"

namespace plumb {

struct RankLost : std::runtime_error {
  RankLost() : std::runtime_error("another rank failed") {}
};

// One rank's end of a group of ranks.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // x becomes the sum over the ranks, in rank order; every rank's x and every running sum is
  // rounded to `wire` (nearest even). A group of one leaves x as it is, unrounded.
  virtual void sum(std::span<float> x, const Format& wire) = 0;
  virtual void sum(double& x) = 0;
  virtual void max(std::span<float> x) = 0;
  // The ranks' tensors below one another, in rank order.                       // (sum of rows,
  // cols)
  virtual Tensor gather_rows(const Tensor& x) = 0;
};

// The handle of a rank: its group along each axis of a dp x tp mesh (rank = dp * tp_size + tp).
struct Mesh {
  Communicator& tp;
  Communicator& dp;
};

// Runs `body(rank, mesh)` for every rank of a dp x tp mesh, on threads; returns when all are done.
// Throws what the lowest failing rank threw.
void on_threads(int dp, int tp, const std::function<void(int rank, Mesh mesh)>& body);

}  // namespace plumb
