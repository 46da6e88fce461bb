// c/signature.hpp: what an operation takes and makes, in one line.
//
//   "gemm: A (M, K), B (K, N), [bias (N, 1)] -> C (M, N); transpose_a = 0, transpose_b = 0, [chain]"
//
// In brackets what may be left out; "= 0": a flag, 0 if it is left out; "x_1, x_2 ...": as many as there
// are.
// TESTED   tests/c/abi_test.cpp
#pragma once

#include <string>

#include "bounds/operation.hpp"
#include "c/sees.hpp"

namespace plumb::c {

std::string signature_of(const Operation& operation);

}  // namespace plumb::c
