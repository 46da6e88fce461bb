// experiments/joint_faults.hpp: where a fault of a joint shows (injectors/generic.hpp): settings that
// between them ask every joint, tried in order until a bit changes.
//
// TESTED   tests/experiments/generic_test.cpp
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "experiments/scene.hpp"
#include "experiments/sees.hpp"
#include "injectors/generic.hpp"

namespace plumb::experiments {

// The family is the first of `needs`.
struct Place {
  Needs needs;
  bool in_the_next_step = false;
};
std::span<const Place> places_of_joints();

// A place in which the fault changes a bit, and the run with it there. Absent: in none of them.
struct Shown {
  const Place* place;
  Scene* scene;
  Scene::Broken broken;
};
// Remembers where no joint of that name is asked.
class Search {
 public:
  // `scene`: of a place; it outlives what is shown.
  std::optional<Shown> first_change(const GenericFault& fault,
                                    const std::function<Scene&(const Place&)>& scene);

 private:
  std::set<std::pair<std::string, const Place*>> not_asked_;
};

}  // namespace plumb::experiments
