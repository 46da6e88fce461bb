// bounds/operations/product_of_part.hpp: the product that one part of a sum is.
//
// TESTED   tests/bounds/operations/drawn_order_test.cpp
// SOURCES  trace/twins.md M9
#pragma once

#include "bounds/operation.hpp"
#include "bounds/sees.hpp"
#include "number/product.hpp"

namespace plumb::bounds {

// A B of one part of a sum: by chains, or as a scope says (bounds/multiply.hpp). In a draw of an order that
// nobody knows (call.how.order_key) the terms are added in one drawn for this part. COSTS then copies of
// both.                                                                 // (M, K), (K, N) -> (M, N)
template <class T>
Matrix<T> product_of_part(View<T> a, View<T> b, const Call<T>& call, std::size_t part);

}  // namespace plumb::bounds
