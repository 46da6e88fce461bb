// bounds/cast_sums.hpp: what the sums of a product of codes may lose before its cast, on a matrix
// unit (cast_on_unit.cpp) or in FP32 (cast_in_fp32.cpp): cast_product.hpp.
//
// TESTED   tests/kernels/cast_product_test.cpp
#pragma once

#include <vector>

#include "bounds/cast_product.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

struct CastSums {
  Matrix<double> off;       // worst, likely or deviation, as the mode has it
  Matrix<double> bias;      // of moments
  Matrix<double> worst;     // of moments the deviation
  Matrix<double> any_off;   // of casts by chance: worst, whatever codes are drawn
  std::vector<Term> terms;  // of the element that is explained
};

// The product of the numbers that codes stand for, and that of their sizes.
struct CastValues {
  Matrix<double> of_codes, sizes;
};

// |A| |B| and the like: both operands have K columns.
Matrix<double> product_by_rows(const Matrix<double>& a, const Matrix<double>& b);
Matrix<double> sizes_of(const Matrix<double>& x);

// Is one of the operands rounded stochastically?
bool cast_by_chance(const CastProductCall& call);

// Returns the unit for these operands, or why the card has none that multiplies them.
Outcome<Mma> unit_for(const Machine& machine, const CastProductCall& call);
// Where chains of codes begin on a unit, and K.
std::vector<std::size_t> chains_of(const CastProductCall& call);

CastSums cast_sums_on(const Mma& unit, const CastProductCall& call);
Outcome<CastSums> cast_sums_in_fp32(const Machine& machine, const CastProductCall& call,
                                    const CastValues& values);

}  // namespace plumb::bounds
