// model/joints/layers.hpp: decisions about embedding, dropout and linear layers: layers.inc.
//
// TESTED   tests/model/joints_test.cpp, tests/experiments/catch_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/joints/joint.hpp"
#include "model/joints/joints.hpp"
#include "model/sees.hpp"
#include "number/format.hpp"
#include "number/matrix.hpp"
#include "number/product.hpp"

namespace plumb::model::decisions {

#define PLUMB_LIST "model/joints/layers.inc"
#include "model/joints/as_structs.inc"

}  // namespace plumb::model::decisions
