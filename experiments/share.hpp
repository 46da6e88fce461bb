// experiments/share.hpp: so many of these.
#pragma once

#include <cstddef>

namespace plumb::experiments {

struct Share {
  std::size_t hits = 0, of = 0;
  double rate() const { return static_cast<double>(hits) / static_cast<double>(of ? of : 1); }
};

}  // namespace plumb::experiments
