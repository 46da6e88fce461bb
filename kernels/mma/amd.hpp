// kernels/mma/amd.hpp: one step of the matrix units that are not aligned: D = C + sum of products.
//
// exact, paired and floored as number/mma.hpp and theory.md T6 have them. The sign of a zero is not
// that of the unit.
//
// TESTED   tests/kernels/oracle_test.cpp, tests/kernels/mma_test.cpp
// SOURCES  bounds/SOURCES.md [MMA-Sim]
#pragma once

#include <cstdint>
#include <span>

#include "kernels/sees.hpp"
#include "number/mma.hpp"

namespace plumb::kernels {

// significand 2^(exponent - bits)
struct Product {
  std::int64_t significand;
  int exponent;
  bool of_subnormal;  // is a factor subnormal?
};

// `bits`: fraction bits of both factors together. Products in the order of K.
float amd_step(const Mma& unit, float c, std::span<const Product> products, int bits);

}  // namespace plumb::kernels
