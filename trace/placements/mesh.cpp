#include "trace/placements/mesh.hpp"

namespace plumb::trace {

std::optional<std::size_t> Mesh::find(const std::string& name) const {
  for (std::size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].name == name) return a;
  }
  return {};
}

std::vector<std::size_t> Mesh::place_of(std::size_t rank) const {
  std::vector<std::size_t> place(axes.size());
  for (std::size_t a = axes.size(); a-- > 0; rank /= axes[a].size) place[a] = rank % axes[a].size;
  return place;
}

std::string Mesh::names() const {
  std::string all;
  for (const Axis& axis : axes) all += (all.empty() ? "" : ", ") + axis.name;
  return all;
}

}  // namespace plumb::trace
