#include "model/spec/mesh.hpp"

namespace plumb::model {

Coordinates coordinates(const Layout& l, int rank) {
  return {rank / (l.tp * l.cp * l.dp), rank / (l.tp * l.cp) % l.dp, rank / l.tp % l.cp,
          rank % l.tp};
}

std::vector<Division> divisions_of(const Layout& l) {
  // Ranks that agree in the coordinates that `wipe` leaves are one group along that axis.
  const auto along = [l](auto wipe) {
    return [l, wipe](int rank) {
      Coordinates c = coordinates(l, rank);
      wipe(c);
      return ((c.pp * l.dp + c.dp) * l.cp + c.cp) * l.tp + c.tp;
    };
  };
  using C = Coordinates;
  const int copies = l.expert_copies(), sharers = l.sharers_of(false);
  const int expert_sharers = l.sharers_of(true);
  return {along([](C& c) { c.tp = 0; }),
          along([](C& c) { c.cp = 0; }),
          along([](C& c) { c.dp = 0; }),
          along([](C& c) { c.pp = 0; }),
          along([](C& c) { c.tp = c.pp = 0; }),
          along([](C& c) { c.tp = c.cp = 0; }),
          along([copies](C& c) { c.dp %= copies; }),
          along([copies](C& c) { c.dp -= c.dp % copies; }),
          along([sharers](C& c) { c.dp -= c.dp % sharers; }),
          along([copies, expert_sharers](C& c) { c.dp -= c.dp % copies % expert_sharers; })};
}

Mesh mesh_of(Groups& g) {
  return {*g.at(0), *g.at(1), *g.at(2), *g.at(3), *g.at(4),
          *g.at(5), *g.at(6), *g.at(7), *g.at(8), *g.at(9)};
}

}  // namespace plumb::model
