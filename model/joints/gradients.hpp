// model/joints/gradients.hpp: decisions about the loss, and gradients until they are summed: gradients.inc.
//
// TESTED   tests/model/joints_test.cpp, tests/experiments/catch_test.cpp
#pragma once

#include <string_view>

#include "model/joints/joint.hpp"
#include "model/joints/joints.hpp"
#include "model/sees.hpp"
#include "number/format.hpp"
#include "number/matrix.hpp"

namespace plumb::model::decisions {

#define PLUMB_LIST "model/joints/gradients.inc"
#include "model/joints/as_structs.inc"

}  // namespace plumb::model::decisions
