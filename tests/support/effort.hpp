// tests/support/effort.hpp: how hard to try. PLUMB_EFFORT=10 multiplies draws by ten; presets of
// slow builds ask for fewer (CMakePresets.json).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "number/philox.hpp"
#include "tests/support/rooms.hpp"

namespace plumb {

// `draws`, times PLUMB_EFFORT (1 when unset).
inline int effort(int draws) {
  const char* text = std::getenv("PLUMB_EFFORT");
  const double factor = text == nullptr ? 1 : std::atof(text);
  return std::max(1, static_cast<int>(factor * draws));
}

// As many of `all` as PLUMB_EFFORT says, all from 1 on; by chance other ones in a test of another name.
template <class T>
std::vector<T> some_of(const std::vector<T>& all) {
  const std::size_t count = std::min(all.size(), std::size_t(effort(static_cast<int>(all.size()))));
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::size_t first = key_of(0, test->name()) % all.size();
  std::vector<T> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(all[(first + i) % all.size()]);
  return some;
}

}  // namespace plumb
