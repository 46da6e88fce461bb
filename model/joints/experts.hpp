// model/joints/experts.hpp: decisions about the choice of experts, and what they weigh: experts.inc.
//
// TESTED   tests/model/joints_test.cpp, tests/experiments/catch_test.cpp
#pragma once

#include <cstddef>
#include <string_view>

#include "model/joints/joint.hpp"
#include "model/joints/joints.hpp"
#include "model/sees.hpp"
#include "number/matrix.hpp"

namespace plumb::model::decisions {

#define PLUMB_LIST "model/joints/experts.inc"
#include "model/joints/as_structs.inc"

}  // namespace plumb::model::decisions
