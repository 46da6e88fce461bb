// tests/support/bugs.hpp: GoogleTest prints a bug by its name, instead of its address. It looks beside the type, so
// not in a test's own namespace.
#pragma once

#include <ostream>

#include "injectors/bug.hpp"

namespace plumb::injectors {
inline void PrintTo(const Bug* bug, std::ostream* out) { *out << bug->id; }
}  // namespace plumb::injectors
