// model/run/rewriting.hpp: what modules take in where a run is rewritten.
//
//   reference   what the reference hands on in a run that is not rewritten
//   generated   normal numbers, by Philox from seed, step, canonical id and element, that have
//               in each column the mean and the deviation of what the reference hands on, rounded
//               to its format: softmaxes, norms and scales stay in their range
//
// A tensor is made whole, by every process alike; each rank takes the piece that its layout gives
// it. Nothing is communicated.
//
// COSTS    one step of the reference.
// TESTED   tests/model/rewriting_test.cpp
// SOURCES  the consistent generator of TTrace: bounds/SOURCES.md [TTrace] [Sal11]
#pragma once

#include "model/run/start.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// Returns the start of the same step, rewritten. Throws Failure if what the reference hands on is
// not finite.
Start rewritten(Start start, Rewriting how);

}  // namespace plumb::model
