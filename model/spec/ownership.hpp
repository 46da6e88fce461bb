// model/spec/ownership.hpp: which ranks hold a module or a parameter: facts of the layout that the
// promise (plan/shards), the run that is judged (rank) and estimates (traffic) share.
#pragma once

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

}  // namespace plumb::model
