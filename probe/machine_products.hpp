// probe/machine_products.hpp: products as the machine of a card makes them, for twins of its runs
// (trace/twins.md M9).
//
// TESTED   tests/experiments/truncating_test.cpp
#pragma once

#include <optional>

#include "bounds/machine.hpp"
#include "bounds/multiply.hpp"
#include "probe/sees.hpp"

namespace plumb::probe {

// Of numbers of BF16, if the card has a matrix unit for them whose steps come one after the other; else
// nothing: twins multiply by chains of fused multiply-adds.
std::optional<Multiply> products_on(const Machine& machine);

}  // namespace plumb::probe
