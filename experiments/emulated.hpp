// experiments/emulated.hpp: a matrix unit as a backend, on any machine.
//
// TESTED   tests/experiments/truncating_test.cpp
#pragma once

#include "experiments/sees.hpp"
#include "kernels/backend.hpp"

namespace plumb::experiments {

// Multiplies numbers of BF16 as an H100's unit does, bit by bit (card h100), and others in FP32 as the
// reference does: what the backend `cublas` is on an H100. Not among all_backends().
const Backend& emulated_h100();

}  // namespace plumb::experiments
