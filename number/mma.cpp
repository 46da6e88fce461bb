#include "number/mma.hpp"

#include <stdexcept>

namespace plumb {

void Mma::check() const {
  const bool sound = terms >= 1 && terms <= most_terms && grid >= 1 && grid <= 40 && kept >= 1 &&
                     kept <= 23 && promoted_after >= 0 && promoted_after % terms == 0;
  if (!sound) throw std::invalid_argument("no matrix unit has these numbers of terms and bits");
}

}  // namespace plumb
