// Has every joint a fault that changes a bit, and do the default rules find every fault that does?
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "experiments/joint_faults.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::generic_test {
namespace {

Start small_start(const Needs& needs) {
  const std::string family = needs.family(needs.families.front());
  Training run = small_run(family, std::string(needs.recipe), std::string(needs.layout));
  needs.complete(run.config);
  return start_of(run.config, run.recipe, run.layout, small_text());
}

std::vector<std::string> joints_of_faults() {
  std::vector<std::string> joints;
  for (const GenericFault& fault : generic_faults()) {
    if (joints.empty() || joints.back() != fault.joint) joints.push_back(fault.joint);
  }
  return joints;
}

// The first kinds of each joint. All: experiment joint-faults.
class JointFaults : public testing::TestWithParam<std::string> {};

TEST_P(JointFaults, ChangeABitAndAreFound) {
  int shown = 0;
  Search search;
  std::map<const experiments::Place*, std::unique_ptr<Scene>> scenes;
  const auto scene = [&](const experiments::Place& place) -> Scene& {
    auto& here = scenes[&place];
    if (!here)
      here = std::make_unique<Scene>(small_start(place.needs), place.in_the_next_step,
                                     std::vector<CheckOptions>{{}});
    return *here;
  };
  for (const GenericFault& fault : generic_faults()) {
    if (fault.joint != GetParam() || shown == effort(3)) continue;
    const auto at = search.first_change(fault, scene);
    if (!at) continue;
    ++shown;
    const Verdict v = at->scene->judged(at->broken).front().broken;
    EXPECT_EQ(v.exit_code(), 1) << fault.id() << " in " << at->place->needs.layout;
  }
  EXPECT_GT(shown, 0);
}

INSTANTIATE_TEST_SUITE_P(Of, JointFaults, testing::ValuesIn(joints_of_faults()),
                         [](const auto& joint) {
                           std::string name = joint.param;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace plumb::generic_test
