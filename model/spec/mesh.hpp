// model/spec/mesh.hpp: a rank's coordinates in a layout, and its groups.
//
// Neighbours in a tensor-parallel group have neighbouring numbers; then come context- and
// data-parallel groups, then the stages of the pipeline:
//
//   rank = ((pp * DP + dp) * CP + cp) * TP + tp
//
// TESTED   tests/model/layout_test.cpp
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "model/sees.hpp"
#include "model/spec/layout.hpp"
#include "world/world.hpp"

namespace plumb::model {

struct Coordinates {
  int pp = 0, dp = 0, cp = 0, tp = 0;
  bool operator==(const Coordinates&) const = default;
};
Coordinates coordinates(const Layout& layout, int rank);

// The groups of a rank along each axis; `model`: along tp and pp, where slices of one copy of the
// model lie; `tokens`: along cp and tp, where slices of the tokens lie. Data-parallel ranks are
// divided further: `ep` have all experts together, `expert_copies` the same ones; `sharers` have all
// shares of a parameter together under ZeRO, `expert_sharers` those of an expert's.
struct Mesh {
  Communicator &tp, &cp, &dp, &pp, &model, &tokens, &ep, &expert_copies, &sharers, &expert_sharers;
};
// The names of these, in the order that mesh_of expects, and how the world is divided for that.
inline constexpr std::array<std::string_view, 10> axes_of_mesh = {
    "tp", "cp", "dp", "pp", "model", "tokens", "ep", "copies", "sharers", "expert_sharers"};
std::vector<Division> divisions_of(const Layout& layout);
Mesh mesh_of(Groups& groups);

}  // namespace plumb::model
