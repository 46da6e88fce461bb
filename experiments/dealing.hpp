// experiments/dealing.hpp: which rank of a job makes which rows.
//
// TESTED   tests/experiments/dealing_test.cpp, tests/cli/mpi_test.cpp
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/sees.hpp"

namespace plumb::experiments {

// By rank, the keys that are its own. `groups`: keys by what they share, of which one rank makes all;
// what they share counts as one of them. The large groups first, in the order of the hashes of their
// names (so that no rank gets all of a kind), each to the rank that has least.
std::vector<std::vector<std::string>> dealt(
    const std::map<std::string, std::vector<std::string>>& groups, int ranks);

}  // namespace plumb::experiments
