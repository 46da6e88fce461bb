// model/spec/training.hpp: one step of one run: what is trained, in which numbers, over which
// ranks.
#pragma once

#include "model/sees.hpp"
#include "model/spec/config.hpp"
#include "model/spec/layout.hpp"
#include "model/spec/recipe.hpp"

namespace plumb::model {

struct Training {
  Config config;
  Recipe recipe;
  Layout layout;
  int step = 1;  // counts from 1
  // false: the step records its loss, the norm of its gradients and the next state only.
  bool traced = true;
};

}  // namespace plumb::model
