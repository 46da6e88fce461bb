// trace/judge/pieces.hpp: rows, or columns, of a tensor that was given.
//
// TESTED   tests/trace/judge_test.cpp
#pragma once

#include <span>

#include "bounds/row_wise.hpp"
#include "number/matrix.hpp"
#include "trace/judge/operands.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// All of it, or those rows or columns, in their order. Throws Failure on numbers that FP32 has not.
Matrix<double> piece_of(const GivenOperand& of, Cut cut, std::span<const std::size_t> which);

// Throws Failure, naming the place, if one of the numbers is an infinity or a NaN.
void refuse_not_finite(const GivenOperand& of, Cut cut, std::span<const std::size_t> which,
                       const Matrix<double>& numbers);

// Where element `e` of such a piece stands in the whole.
std::size_t element_of(const GivenOperand& of, Cut cut, std::span<const std::size_t> which,
                       std::size_t e);

// `n` of `all` rows, drawn by the seed, in their order.
std::vector<std::size_t> drawn_rows(std::size_t n, std::size_t all, std::uint64_t seed);

}  // namespace plumb::trace
