// model/spec/sharding.hpp: how a rank holds a tensor or a parameter. The only such list.
#pragma once

#include "model/sees.hpp"

namespace plumb::model {

// How a tensor of a rank lies in the whole one:
//   whole           all of it
//   rows, columns   the tensor-parallel slice of its rows or columns
//   tokens          rows are tokens: those of this context
//   own_tokens      of these the sequence-parallel slice, as in the residual stream
//   token_columns   this context's tokens, the tensor-parallel slice of their columns
//   token_heads     of these the columns of this rank's heads (model/spec/ownership.hpp)
//   copies          rows are copies of tokens that experts take: those of this context's tokens
//                   that the experts here take
//   copy_columns    of these a slice of the columns
enum class Sharding {
  whole,
  rows,
  columns,
  tokens,
  own_tokens,
  token_columns,
  token_heads,
  copies,
  copy_columns
};
inline bool sliced_columns(Sharding sharding) {
  return sharding == Sharding::columns || sharding == Sharding::token_columns ||
         sharding == Sharding::copy_columns;
}

}  // namespace plumb::model
