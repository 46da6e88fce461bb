// model/spec/ownership.hpp: which ranks hold a module or a parameter: facts of the layout that the
// promise (plan/shards), the run that is judged (rank) and estimates (traffic) share.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/sees.hpp"
#include "model/spec/layout.hpp"
#include "model/spec/mesh.hpp"

namespace plumb::model {

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

// How tensor-parallel ranks hold a parameter.
Sharding held_as(const Layout& layout, const Parameter& p);

// How many tensor-parallel ranks have each key/value head: several where there are more ranks than
// such heads. Each then has a copy of it beside some of the query heads of its group.
int key_copies(const Config& config, const Layout& layout);
// The columns of packed queries, keys and values that a tensor-parallel rank's heads have: blocks,
// ascending. The product that makes them is sliced evenly all the same.
struct Columns {
  std::size_t first, count;
};
std::vector<Columns> columns_of_heads(const Config& config, const Layout& layout, int tp);

}  // namespace plumb::model
