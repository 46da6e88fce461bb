// experiments/other_orders.hpp: ranks on threads whose sums are taken in another order than the
// promised one, as rings, trees and switches do. A run may not be accused of it.
//
// A gather brings every rank's numbers to every rank, and each adds them as the operation all_reduce
// says (bounds/collective.hpp). Sums that leave while something is computed (layouts with `overlap`)
// are not the world's, and stay in rank order.
//
// TESTED   tests/experiments/benign_test.cpp
#pragma once

#include <memory>
#include <string_view>

#include "experiments/sees.hpp"
#include "world/world.hpp"

namespace plumb::experiments {

enum class AddingOrder {
  ring,       // slice c of the elements begins at rank c + 1
  tree,       // halves of the ranks
  backwards,  // from the last rank to the first, rounded to the wire each time
  switched,   // FP32 sums in an order that is another in each sum, rounded to the wire once
};
std::string_view name_of(AddingOrder order);

// A world on threads. The caller keeps it while ranks run.
std::unique_ptr<World> threads_that_add(AddingOrder order);

}  // namespace plumb::experiments
