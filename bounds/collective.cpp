#include "bounds/collective.hpp"

#include <stdexcept>
#include <string>

namespace plumb::bounds {

void Collective::check() const {
  if (ranks < 1) {
    throw std::invalid_argument("a collective of " + std::to_string(ranks) +
                                " ranks: there must be one at least");
  }
  if (!rotation) return;
  if (algorithm != Algorithm::ring) {
    throw std::invalid_argument("a rotation says where a ring begins; only rings have one");
  }
  if (*rotation < 0 || *rotation >= ranks) {
    throw std::invalid_argument("rotation " + std::to_string(*rotation) + " of " +
                                std::to_string(ranks) + " ranks: choose 0 to " +
                                std::to_string(ranks - 1));
  }
}

std::optional<Collective::Algorithm> find_algorithm(std::string_view name) {
  for (std::size_t i = 0; i < algorithm_names.size(); ++i) {
    if (name == algorithm_names[i]) return static_cast<Collective::Algorithm>(i);
  }
  return {};
}

}  // namespace plumb::bounds
