// model/leftovers.hpp: what a rank still has in its hands from the step before, beside the state
// that it is meant to keep. A healthy step takes nothing of it; late bugs live here.
#pragma once

#include <map>
#include <string>

#include "bounds/number/matrix.hpp"

namespace plumb {

struct Leftovers {
  std::map<std::string, Tensor> main_grad;  // summed gradients, by parameter
};

}  // namespace plumb
