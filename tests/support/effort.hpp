// tests/support/effort.hpp: how hard to try. PLUMB_EFFORT=10 multiplies draws by ten; presets of
// slow builds ask for fewer (CMakePresets.json).
#pragma once

#include <algorithm>
#include <cstdlib>
#include "tests/support/rooms.hpp"

namespace plumb {

// `draws`, times PLUMB_EFFORT (1 when unset).
inline int effort(int draws) {
  const char* text = std::getenv("PLUMB_EFFORT");
  const double factor = text == nullptr ? 1 : std::atof(text);
  return std::max(1, static_cast<int>(factor * draws));
}

}  // namespace plumb
