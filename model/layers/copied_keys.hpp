// model/layers/copied_keys.hpp: key/value heads of which several tensor-parallel ranks have a copy,
// since there are more ranks than such heads (multi-query attention). As Megatron-LM core does, the
// product that makes queries, keys and values stays sliced evenly; its slices are gathered, and each
// rank takes its queries and the key and value of their group.
//
// Without copies each function returns what it is given.
// TESTED   tests/model/settings_test.cpp
#pragma once

#include "model/rank/rank.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// qkv: an even slice of all columns (T, F / tp) -> the columns of this rank's heads.
Tensor with_copied_keys(Rank& rank, Tensor qkv);
// Back: of each copied head one rank hands on the gradient, which all of them have.
Tensor without_copies(Rank& rank, const std::string& attn, Tensor d_qkv);
// Sums, over the ranks that have copies of a key and a value, what their query heads give to them.
void sum_over_copies(Rank& rank, const std::string& attn, Tensor& d_qkv, Evaluation& ran);

}  // namespace plumb::model
