// probe/collective.hpp: in which order the ranks of a collective add up, and what travels.
//
//   wire      what a rank has alone comes back rounded to the format that travels
//   trees     masks (masked.hpp) on two ranks, a one on each other: all pairs of ranks, all elements
//             of a message at once, since a ring takes each chunk of them in another order
//   name      rank_order, tree, or ring with a rotation, if its trees are those of all elements; where
//             the trees have no name, any_order, if their bits are those of FP32 sums that are rounded
//             to the wire once
//   proof     every bit of drawn messages, as the operation all_reduce makes them (any_order: as the
//             trees do); and the bound of the new collective on others
//
//   Libraries choose by size: it holds for messages of as many elements as were sent.
//
// ASSUMES  that the order depends on the size and the ranks alone, not on values
// TESTED   tests/probe/collective_test.cpp, tests/cli/mpi_test.cpp
// SOURCES  bounds/SOURCES.md [Xie25], [NCCL]
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bounds/collective.hpp"
#include "number/matrix.hpp"
#include "probe/calibrate.hpp"
#include "probe/sees.hpp"
#include "probe/tree.hpp"

namespace plumb::probe {

// Row r is what rank r has; returns the sum of the rows, as one rank gets it.
using AllReduce = std::function<Tensor(const Tensor& ranks)>;  // (R, E) -> (1, E)

struct CollectiveFound {
  std::optional<Collective> is;  // nothing: see `why`
  std::vector<Tree> trees = {};  // of each element
  std::string how = {}, why = {};
  HeldTables held = {};  // the bound of the collective, on messages that no probe sent
};
// `elements`: of a message; a multiple of `ranks`.
CollectiveFound collective_of(const AllReduce& all_reduce, std::size_t ranks, std::size_t elements,
                              unsigned seed = 1);

}  // namespace plumb::probe
