// tests/support/effort.hpp: how hard to try. PLUMB_EFFORT=10 multiplies draws by ten; a checked
// build, which is slow, draws less.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace plumb {

// `draws`, times PLUMB_EFFORT (1 when unset).
inline int effort(int draws) {
  const char* text = std::getenv("PLUMB_EFFORT");
  const double factor = text == nullptr ? 1 : std::atof(text);
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__)
  constexpr double build = 0.25;
#else
  constexpr double build = 1;
#endif
  return std::max(1, static_cast<int>(factor * build * draws));
}

}  // namespace plumb
