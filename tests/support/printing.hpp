// tests/support/printing.hpp: GoogleTest prints a parameter by its name, instead of its bytes. It looks beside the
// type, so not in a test's own namespace.
#pragma once

#include <ostream>

#include "number/format.hpp"

namespace plumb {
inline void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }
}  // namespace plumb
