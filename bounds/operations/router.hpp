// bounds/operations/router.hpp: which rows of a router's choice could have gone otherwise.
//
// A choice of the k largest logits is not continuous: no tolerance of probabilities says whether
// two runs send a token to the same experts. The margin does, x_(k) - x_(k+1), the least that would
// have to change: two logits, each off by e, change places only where it is at most 2 e.
//
// TESTED   tests/bounds/operations/router_test.cpp
#pragma once

#include <vector>

#include "bounds/sees.hpp"
#include "number/matrix.hpp"

namespace plumb::bounds {

// Returns the rows whose choice is not decided if each logit may be off by `logit_error` (one
// number a row) and each margin by `margin_error`: there two sound runs may differ, elsewhere not.
std::vector<std::size_t> undecided(const Matrix<double>& margins,        // (T, 1)
                                   const Matrix<double>& logit_error,    // (T, 1)
                                   const Matrix<double>& margin_error);  // (T, 1)

}  // namespace plumb::bounds
