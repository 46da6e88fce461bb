// probe/triples.hpp: trees told by three products at a time: do i and j meet before either meets k?
//
// TESTED   tests/probe/softmax_test.cpp
#pragma once

#include <cstddef>
#include <vector>

#include "probe/sees.hpp"
#include "probe/tree.hpp"

namespace plumb::probe {

struct Triple {
  std::size_t i, j, k;
};

// One for each sum of two within the sum, all of which the tree answers with yes: no other tree of
// sums of two does.
std::vector<Triple> triples_of(const Tree& tree);
// What the tree answers to each.
std::vector<bool> answers_of(const Tree& tree, const std::vector<Triple>& asked);

}  // namespace plumb::probe
