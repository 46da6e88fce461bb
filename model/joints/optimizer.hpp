// model/joints/optimizer.hpp: decisions about scales, the norm of all gradients, the update: optimizer.inc.
//
// TESTED   tests/model/joints_test.cpp, tests/experiments/catch_test.cpp
#pragma once

#include <algorithm>
#include <string_view>

#include "model/joints/joint.hpp"
#include "model/joints/joints.hpp"
#include "model/sees.hpp"

namespace plumb::model::decisions {

#define PLUMB_LIST "model/joints/optimizer.inc"
#include "model/joints/as_structs.inc"

}  // namespace plumb::model::decisions
