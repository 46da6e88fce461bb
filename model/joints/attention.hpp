// model/joints/attention.hpp: decisions about attention, positions and documents: attention.inc.
//
// TESTED   tests/model/joints_test.cpp, tests/experiments/catch_test.cpp
#pragma once

#include <cstddef>
#include <vector>

#include "model/joints/joint.hpp"
#include "model/joints/joints.hpp"
#include "model/sees.hpp"
#include "number/matrix.hpp"

namespace plumb::model::decisions {

#define PLUMB_LIST "model/joints/attention.inc"
#include "model/joints/as_structs.inc"

}  // namespace plumb::model::decisions
