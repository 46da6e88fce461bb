// model/rank/stale_gradients.hpp: tensors that a rank still has from the step before, beside the
// state that it is meant to keep. A healthy step uses none of them; late bugs live here.
//
// TESTED   tests/experiments/training_test.cpp
#pragma once

#include <map>
#include <string>

#include "model/sees.hpp"
#include "number/matrix.hpp"

namespace plumb::model {

struct StaleGradients {
  std::map<std::string, Tensor> main_grad;  // summed gradients, by parameter
};

}  // namespace plumb::model
