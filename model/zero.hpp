// model/zero.hpp: what ZeRO leaves on a data-parallel rank: a share of the elements of its slice of
// each parameter, contiguous in row-major order.
//
// A share is a column (n, 1), so that shares of all ranks below one another are the slice.
// TESTED   tests/model/one_rank_test.cpp, over layouts with zero
#pragma once

#include "model/rank.hpp"

namespace plumb {

struct LocalShape {
  std::size_t rows, cols;
};
// Of this rank's slice of a parameter.
LocalShape local_shape(const Rank& rank, const Parameter& p);

// Which of n elements of its slice this rank has.
Slice share_of(const Rank& rank, const Parameter& p, std::size_t n);
// This rank's share of its slice, and the slice out of the shares of all ranks that hold copies.
Tensor own_share(const Rank& rank, const Tensor& slice, const Parameter& p);  // (n, 1)
Tensor gathered(const Rank& rank, const Tensor& share, const Parameter& p);   // (rows, cols)

// A share as a shard of the whole tensor: `slice` is where the rank's slice lies in it. What the
// share does not cover of its first and last row is left out.
Shard shard_of(const Rank& rank, const Tensor& share, const Parameter& p, const Placement& slice,
               const Format& format);

}  // namespace plumb
