#include "bounds/proof/term.hpp"

#ifdef PLUMB_MUTANTS
#include <cstdlib>
#include <string>

namespace plumb::bounds {

double mutant_factor(std::string_view name) {
  const char* mutant = std::getenv("PLUMB_MUTANT");
  if (mutant == nullptr) return 1;
  const std::string_view text(mutant);
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos || text.substr(0, colon) != name) return 1;
  return std::stod(std::string(text.substr(colon + 1)));
}

}  // namespace plumb::bounds
#endif
