#include "model/mesh.hpp"

namespace plumb {

Coordinates coordinates(const Layout& l, int rank) {
  return {rank / (l.tp * l.dp), rank / l.tp % l.dp, rank % l.tp};
}

std::vector<Division> divisions_of(const Layout& l) {
  const auto number = [l](Coordinates c) { return (c.pp * l.dp + c.dp) * l.tp + c.tp; };
  // Ranks that agree in what is left after an axis is wiped out are one group along that axis.
  const auto along = [l, number](auto wipe) {
    return [l, number, wipe](int rank) {
      Coordinates c = coordinates(l, rank);
      wipe(c);
      return number(c);
    };
  };
  return {along([](Coordinates& c) { c.tp = 0; }), along([](Coordinates& c) { c.dp = 0; }),
          along([](Coordinates& c) { c.pp = 0; }), along([](Coordinates& c) { c.tp = c.pp = 0; })};
}

Mesh mesh_of(Groups& groups) {
  return {*groups.at(0), *groups.at(1), *groups.at(2), *groups.at(3)};
}

}  // namespace plumb
