// model/held.hpp: how a rank holds a tensor, and which ranks hold a parameter: facts of the layout
// that the promise (plan/shards), the patient (rank) and estimates (traffic) share.
#pragma once

#include <string>
#include <vector>

#include "model/layout.hpp"
#include "model/mesh.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// How a tensor of a rank lies in the whole one:
//   whole           all of it
//   rows, columns   the tensor-parallel slice of its rows or columns
//   tokens          rows are tokens: those of this context
//   own_tokens      of these the sequence-parallel slice, as in the residual stream
//   token_columns   this context's tokens, the tensor-parallel slice of their columns
//   copies          rows are copies of tokens that experts take: those of this context's tokens
//                   that the experts here take
//   copy_columns    of these a slice of the columns
enum class Held { whole, rows, columns, tokens, own_tokens, token_columns, copies, copy_columns };
inline bool sliced_columns(Held held) {
  return held == Held::columns || held == Held::token_columns || held == Held::copy_columns;
}

// How a rank holds its slice of a parameter.
Held held(const Parameter& p);
// "layers.3.attn.qkv.weight": 3; -1 outside the layers.
int layer_of(const std::string& parameter);
// A matrix that is tied to the head, or looked up by an extra one, lives on the first and on the
// last stage.
bool on_both_ends(const Config& config, const Parameter& p);
// Does a rank there hold a module's parameters and tensors, layers being divided so among stages?
// (The embedding of both ends: does it hold it as one of the first stage?)
bool holds_module(const Config& config, const Layout& layout, const Coordinates& at,
                  const std::vector<Stage>& stages, const std::string& module);
// Does a rank there hold (a slice of) a parameter?
bool holds(const Config& config, const Layout& layout, const Coordinates& at,
           const std::vector<Stage>& stages, const Parameter& p);

}  // namespace plumb::model
