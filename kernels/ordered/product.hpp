// kernels/ordered/product.hpp: matrix products in a promised order, with a promised rounding.
//
//   C = A B        A (M, K)   B (K, N)   C (M, N)        order and steps: number/order.hpp
//
// `key` names the random words of stochastic rounding; other roundings ignore it.
//
// NOT FOR  speed. Steps that do not round to nearest are taken in FP64 first, which may move the
//          number that is then rounded by 2^-53 of itself.
// TESTED   tests/kernels/ordered_test.cpp
#pragma once

#include "kernels/sees.hpp"
#include "number/order.hpp"
#include "number/product.hpp"

namespace plumb::kernels {

// Throws std::invalid_argument if the inner sizes differ.
Tensor ordered_product(View<float> a, View<float> b, const Order& order, std::uint64_t key = 0);

}  // namespace plumb::kernels
