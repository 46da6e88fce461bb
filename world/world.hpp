// world/world.hpp: how ranks talk. Collectives run in a stated order, so that runs repeat bit by
// bit.
//
// Ranks are threads here. Every collective is called by all ranks of a group, in the same order.
// If one rank throws, the others leave their next collective with RankLost.
// TESTED   tests/world/threads_test.cpp
#pragma once

#include <functional>
#include <memory>
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
  // The ranks' tensors below one another, in rank order.          // (sum of rows, cols)
  virtual Tensor gather_rows(const Tensor& x) = 0;
  // to[r] goes to rank r; returns what each rank sent here, in rank order.
  virtual std::vector<Tensor> exchange(const std::vector<Tensor>& to) = 0;

  // From one rank to another of the group. Sending never waits for the receiver; tensors of one tag
  // arrive in the order in which they were sent.
  virtual void send(int to, int tag, const Tensor& x) = 0;
  virtual Tensor receive(int from, int tag) = 0;
};

// A division of the world into groups: ranks of one colour form a group, in rank order.
using Division = std::function<int(int rank)>;
// A rank's group in each division, in their order. Valid while the rank's body runs.
using Groups = std::vector<std::unique_ptr<Communicator>>;

// Runs `body(rank, groups)` for each of `size` ranks, on threads; returns when all are done.
// Throws what the lowest failing rank threw.
void on_threads(int size, std::span<const Division> divisions,
                const std::function<void(int rank, Groups& groups)>& body);

}  // namespace plumb
