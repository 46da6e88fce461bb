// Is a joint told of everything that comes to a rank from others, and does what it changes arrive?
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "kernels/backend.hpp"
#include "model/joints/memory.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::arrivals_test {
namespace {

using Told = std::map<std::pair<std::string, Way>, int>;  // by axis and way

Told told_in(const char* family, const char* layout) {
  const Training run = small_run(family, "bf16", layout);
  Told told;
  std::mutex mutex;
  Joints joints;
  joints.arrivals.came.replace([&](const Where&, const Arrival& what, std::span<float> x) {
    EXPECT_EQ(what.rows * what.cols, x.size());
    const std::lock_guard lock(mutex);
    ++told[{std::string(what.axis), what.way}];
  });
  train_step(run, leaves_of_run(run), joints, find_backend("reference"), threads());
  return told;
}

TEST(Arrivals, AreToldOfByAxisAndWay) {
  EXPECT_GT((told_in("gpt", "tp2")[{"tp", Way::sum}]), 0);
  EXPECT_GT((told_in("gpt", "tp2")[{"tp", Way::max}]), 0);
  EXPECT_GT((told_in("gpt", "tp2,sp")[{"tp", Way::gather}]), 0);
  EXPECT_GT((told_in("gpt", "pp2")[{"pp", Way::message}]), 0);
  EXPECT_GT((told_in("llama", "cp2:ulysses")[{"cp", Way::exchange}]), 0);
  EXPECT_GT((told_in("llama", "cp2:ring")[{"cp", Way::message}]), 0);
  EXPECT_GT((told_in("gpt-moe", "dp2,ep2")[{"ep", Way::exchange}]), 0);
  EXPECT_GT((told_in("gpt", "dp2,zero1")[{"dp", Way::gather}]), 0);
  EXPECT_GT((told_in("gpt", "dp2,overlap:1")[{"dp", Way::message}]), 0);
}

TEST(Arrivals, OfARankAloneAreNone) { EXPECT_TRUE(told_in("llama", "dp1,tp1").empty()); }

TEST(Arrivals, ArriveAsTheJointLeavesThem) {
  const Training run = small_run("gpt", "bf16", "pp2");
  Joints joints;
  joints.arrivals.came.replace([](const Where& where, const Arrival&, std::span<float> x) {
    if (!where.backward) std::ranges::fill(x, 0.0F);
  });

  const Trace trace =
      train_step(run, leaves_of_run(run), joints, find_backend("reference"), threads());

  const Tensor& middle = trace.ranks[1].shards.at("m0/layers.1.attn.add/out").values;
  const Tensor& attended = trace.ranks[1].shards.at("m0/layers.1.attn.proj/out").values;
  EXPECT_EQ(middle.values, attended.values);  // the stream that it is added to came as zeros
}

// What a joint leaves of a tensor that was made is what is recorded, and what goes on.
TEST(Tensors, AreRecordedAndUsedAsTheJointLeavesThem) {
  const Training run = small_run("llama", "bf16", "dp1,tp1");
  Joints joints;
  joints.tensors.made.replace([](const Where&, const std::string& id, Tensor& x) {
    if (id == "m0/layers.0.mlp.act/out") std::ranges::fill(x.values, 0.0F);
  });

  const Trace trace =
      train_step(run, leaves_of_run(run), joints, find_backend("reference"), threads());

  const auto& shards = trace.ranks[0].shards;
  for (const char* id : {"m0/layers.0.mlp.act/out", "m0/layers.0.mlp.fc2/out"}) {
    for (const float x : shards.at(id).values.values) ASSERT_EQ(x, 0) << id;
  }
  EXPECT_NE(shards.at("m1/layers.0.mlp.act/out").values.values.front(), 0);
}

}  // namespace
}  // namespace plumb::arrivals_test
