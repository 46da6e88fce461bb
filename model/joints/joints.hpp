// model/joints/joints.hpp: every parallel decision of the model, by subject: joints.inc.
//
// TESTED   tests/model/joints_test.cpp, tests/experiments/catch_test.cpp
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "bounds/operation.hpp"
#include "model/joints/joint.hpp"
#include "model/rank/arrival.hpp"
#include "model/sees.hpp"
#include "model/spec/layout.hpp"
#include "number/format.hpp"
#include "number/matrix.hpp"
#include "number/product.hpp"

namespace plumb::model {

// The events that a rank waits for before it goes on; `of` is the module that the joint is asked
// for.
enum class Wait {
  gradient,          // the sum, before the optimizer takes it; of: the gradient
  bucket_left,       // another bucket, before its outbox is filled; of: the first gradient there
  input_gradient,    // summed over tensor-parallel ranks, before it is used; of: the layer
  parameter,         // gathered ahead, before its layer takes it; of: the parameter
  sent,              // the outbox's content, before it is filled again; of: stage or ring
  received,          // the input of a stage or a turn, before it starts; of: stage or ring
  parked,            // a layer's input is on the host, before it is sent back; of: the layer
  brought_back,      // and is back, before the layer's backward; of: the layer
  gradient_on_host,  // before the optimizer takes it there; of: the parameter
  parameter_back,    // from there, before it is used again; of: the parameter
};

struct Joints {
#define SUBJECT(name) struct {
#define JOINT(result, name, parameters, ...) \
  Joint<result parameters> name = [] parameters -> result __VA_ARGS__;
#define END(name) \
  }               \
  name;
#include "model/joints/joints.inc"
#undef SUBJECT
#undef JOINT
#undef END

  // Was any replaced joint asked?
  bool reached() const {
#define SUBJECT(name) \
  {                   \
    const auto& subject = name;
#define JOINT(result, name, parameters, ...) \
  if (subject.name.reached()) return true;
#define END(name) }
#include "model/joints/joints.inc"
#undef SUBJECT
#undef JOINT
#undef END
    return false;
  }
};

}  // namespace plumb::model
