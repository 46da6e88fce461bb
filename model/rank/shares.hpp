// model/rank/shares.hpp: ZeRO: each data-parallel rank has a share of the elements of its slice of
// each parameter, contiguous in row-major order.
//
// A share is a column (n, 1), so that shares of all ranks below one another are the slice.
//
// TESTED   tests/model/one_rank_test.cpp, over layouts with zero; tests/model/padding_test.cpp
#pragma once

#include "model/rank/context.hpp"
#include "model/sees.hpp"
#include "trace/trace.hpp"

namespace plumb::model {

struct LocalShape {
  std::size_t rows, cols;
};
// The shape of this rank's slice of a parameter.
LocalShape local_shape(const RankContext& rank, const Parameter& p);

// The elements, out of n of its slice, that this rank has.
Slice share_of(const RankContext& rank, const Parameter& p, std::size_t n);
// Returns this rank's share of its slice; and the slice out of the shares of all ranks.
Tensor own_share(const RankContext& rank, const Tensor& slice, const Parameter& p);  // (n, 1)
Tensor gathered(const RankContext& rank, const Tensor& share, const Parameter& p);   // (rows, cols)

// Under a layout that is `padded`, shares travel at the length of the longest: a share with its
// padding, and the slice out of those of all ranks, one below the other.
Tensor padded(const RankContext& rank, const Tensor& share, const Parameter& p);  // (n, 1)
Tensor without_padding(const RankContext& rank, const Tensor& all,
                       const Parameter& p);  // (rows, cols)

// Returns a share as a shard of the whole tensor: `slice` is the place of the rank's slice in it.
// The parts of its first and last row that the share does not cover are left out.
Shard shard_of(const RankContext& rank, const Tensor& share, const Parameter& p,
               const Placement& slice, const Format& format);

}  // namespace plumb::model
