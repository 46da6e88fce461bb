// world/world.hpp: how ranks talk. Collectives run in a stated order, so that runs repeat bit by
// bit, on threads and in an MPI job alike.
//
// Every collective is called by all ranks of a group, in the same order. If a thread throws, the
// others leave their next collective with RankLost.
//
// TESTED   tests/world/threads_test.cpp, tests/world/nccl_test.cpp, tests/cli/mpi_test.cpp
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "number/format.hpp"
#include "number/matrix.hpp"
#include "world/sees.hpp"

namespace plumb::world {

struct RankLost : std::runtime_error {
  RankLost() : std::runtime_error("another rank failed") {}
};

// One rank's end of a group of ranks.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Sets x to the sum over the ranks, in rank order; every rank's x and every running sum is
  // rounded to `wire` (nearest even). A group of one leaves x as it is, unrounded.
  virtual void sum(std::span<float> x, const Format& wire) = 0;
  virtual void sum(double& x) = 0;
  virtual void max(std::span<float> x) = 0;
  // Returns the ranks' tensors below one another, in rank order.  // (sum of rows, cols)
  virtual Tensor gather_rows(const Tensor& x) = 0;
  // Sends to[r] to rank r; returns the tensors that the ranks sent here, in rank order.
  virtual std::vector<Tensor> exchange(const std::vector<Tensor>& to) = 0;

  // Sends from one rank to another of the group. Sending never waits for the receiver; tensors of
  // one tag arrive in the order in which they were sent.
  virtual void send(int to, int tag, const Tensor& x) = 0;
  virtual Tensor receive(int from, int tag) = 0;
  // Would receive() find its message here, or on its last way? Returns at once.
  virtual bool has_arrived(int from, int tag) = 0;
};

// A division of the world into groups: ranks of one colour form a group, in rank order.
using Division = std::function<int(int rank)>;
// A rank's group in each division, in their order. Valid while the rank's body runs.
using Groups = std::vector<std::unique_ptr<Communicator>>;

using Body = std::function<void(int rank, Groups& groups)>;

// The place where ranks live: threads of this process (with a GPU each, or none), or one process of
// an MPI job each.
class World {
 public:
  virtual ~World() = default;
  // Runs `body(rank, groups)` for each of `size` ranks that this process has; returns when they are
  // done. Throws what the lowest failing rank threw; where ranks are processes, one that fails says
  // why and ends all. Throws Failure if the job has another number of ranks.
  virtual void run(int size, std::span<const Division> divisions, const Body& body) = 0;
  // Does sum() add in rank order, as it is promised? If not, what it makes is judged as the sum in
  // an order that nobody knows.
  virtual bool adds_in_rank_order() const { return true; }
  // This process's rank; 0 where it has all ranks. Rank 0 prints and writes.
  virtual int rank() const = 0;
  virtual bool has_all() const = 0;
  // Returns the texts of all processes, in rank order, to rank 0; nothing to the others.
  virtual std::vector<std::string> gather(const std::string& mine) = 0;
};

// What MPI's own all-reduce makes of the numbers of the ranks (FP32, added in whatever order it likes):
// what rank 0 got, on every rank. `differ`: some rank got other bits. Every process of the job calls it.
struct LibrarySum {
  std::vector<float> values;
  bool differ;
};
// Throws Failure if this program was built without MPI.
LibrarySum mpi_all_reduce(std::span<const float> mine);
// The texts of all processes of the job, by rank, to all of them. Every process calls it.
std::vector<std::string> mpi_share(const std::string& mine);
int ranks_of_mpi();
// Ends MPI where it was begun; the process goes on by itself, and nothing here may be called again.
void leave_mpi();

World& threads();
// Throws Failure if this program was built without MPI. The first call starts MPI.
World& mpi();
// Ranks on threads, each with a GPU of this machine, which NCCL connects. Throws Failure if this
// program was built without NCCL, and run() where there are fewer GPUs than ranks.
World& nccl();
// Says why not even one rank can have a GPU: built without NCCL, or no GPU here; empty where one
// can. Throws Failure where there are GPUs and CUDA fails.
std::string why_no_nccl();

}  // namespace plumb::world
