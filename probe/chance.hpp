// probe/chance.hpp: are sums rounded by chance, in proportion to the distance?
//
//   Of `coins` sums of 1 and a quarter of the spacing above it a quarter has to be the larger
//   neighbour, of those with five eighths as many: within five standard deviations.
//
// TESTED   tests/probe/calibrate_test.cpp
#pragma once

#include "probe/sees.hpp"
#include "probe/subject.hpp"

namespace plumb::probe {

inline constexpr std::size_t coins = 512;

bool rounds_by_chance(const Subject& subject);

}  // namespace plumb::probe
