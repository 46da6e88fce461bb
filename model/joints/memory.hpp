// model/joints/memory.hpp: decisions about what a rank makes, receives, reads and takes up: memory.inc.
//
// TESTED   tests/model/joints_test.cpp, tests/experiments/catch_test.cpp
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "model/joints/joint.hpp"
#include "model/joints/joints.hpp"
#include "model/rank/arrival.hpp"
#include "model/sees.hpp"
#include "number/format.hpp"
#include "number/matrix.hpp"

namespace plumb::model::decisions {

#define PLUMB_LIST "model/joints/memory.inc"
#include "model/joints/as_structs.inc"

}  // namespace plumb::model::decisions
