// model/held.hpp: how a rank holds a tensor, and which ranks hold a parameter: facts of the layout
// that the promise (plan/shards), the patient (rank) and estimates (traffic) share.
#pragma once

#include <string>
#include <vector>

#include "model/layout.hpp"
#include "model/mesh.hpp"

namespace plumb {

// All of the whole tensor, or the tensor-parallel slice of its rows or columns; or, of a tensor
// with a row per token, this context's tokens, of these the sequence-parallel slice (own_tokens, as
// in the residual stream), or a slice of their columns. Or, of a tensor with a row for each copy of
// a token that an expert takes, those of this context's tokens and of the experts here, or a slice
// of their columns.
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

}  // namespace plumb
