// trace/placements/mesh.hpp: ranks as a grid, whose axes have names. The last axis changes fastest
// with the rank, as in a DeviceMesh of PyTorch and a Mesh of JAX.
//
// TESTED   tests/trace/placements_test.cpp
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "trace/sees.hpp"

namespace plumb::trace {

struct Axis {
  std::string name;
  std::size_t size;
  bool operator==(const Axis&) const = default;
};

struct Mesh {
  std::vector<Axis> axes;

  // The number of the axis of that name.
  std::optional<std::size_t> find(const std::string& name) const;
  // The place of a rank on each axis.
  std::vector<std::size_t> place_of(std::size_t rank) const;
  // "dp, tp"
  std::string names() const;
};

}  // namespace plumb::trace
