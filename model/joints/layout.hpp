// model/joints/layout.hpp: decisions about contexts, pipelines, recomputation, shares, overlap: layout.inc.
//
// TESTED   tests/model/joints_test.cpp, tests/experiments/catch_test.cpp
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "bounds/operation.hpp"
#include "model/joints/joint.hpp"
#include "model/joints/joints.hpp"
#include "model/joints/wait.hpp"
#include "model/sees.hpp"
#include "model/spec/layout.hpp"
#include "number/matrix.hpp"

namespace plumb::model::decisions {

#define PLUMB_LIST "model/joints/layout.inc"
#include "model/joints/as_structs.inc"

}  // namespace plumb::model::decisions
