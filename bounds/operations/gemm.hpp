// bounds/operations/gemm.hpp: gemm whose K terms are parted otherwise than evenly.
//
// How many rows of an expert each rank has is a matter of the data. `of` takes the place of
// parting(K, call.how); where call.how.tokens.ranks > 1 the terms are the rows of both: A' B.
// TESTED   tests/bounds/operations/routing_test.cpp, soundness_test.cpp (grouped_wgrad)
#pragma once

#include "bounds/operation.hpp"
#include "bounds/sees.hpp"
#include "number/product.hpp"

namespace plumb::bounds {

// The attribute `chain`: 0 without one.
std::size_t chain_of(const Attributes& attributes);

template <class T>
std::vector<Matrix<T>> partitioned_gemm(const Call<T>& call, const SumPartition& of);
// How far A B may be off, in any order of its sums, because subnormals were flushed: operands,
// products, sums.                                                       // (M, K), (K, N) -> (M, N)
Matrix<double> lost_by_flushes(View<double> a, View<double> b);

Outcome<Tolerance> tolerance_of_partitioned_gemm(const ToleranceCall& call, const SumPartition& of);

}  // namespace plumb::bounds
