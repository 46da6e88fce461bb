// What is not trained in a step: nothing is made of its gradient, and it stays as it is. (That layouts
// keep the promise: tests/model/settings_test.cpp.)
#include <gtest/gtest.h>

#include "kernels/backend.hpp"
#include "number/outcome.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/merge.hpp"

namespace plumb::adapter_test {
namespace {

Values step_of(const Training& run, const Values& leaves) {
  return merge(train_step(run, leaves, Joints(), find_backend("reference"))).values;
}

bool stays(const Values& made, const Values& leaves, const std::string& id) {
  return *made.at(id) == *leaves.at(id + "@previous");
}

TEST(Adapters, AloneAreTrained) {
  const Training run = small_run("gpt+adapter=4", "bf16", "dp2,tp2,zero1");
  const Values leaves = leaves_of_run(run), made = step_of(run, leaves);
  int adapters = 0;
  for (const Parameter& p : parameters(run.config)) {
    const bool beside = p.name.find(".adapter_") != p.name.npos;
    adapters += beside ? 1 : 0;
    EXPECT_EQ(made.contains(p.name + "/main_grad"), beside) << p.name;
    EXPECT_EQ(leaves.contains(p.name + "/master@previous"), beside) << p.name;
    if (beside) {
      EXPECT_FALSE(stays(made, leaves, p.name + "/master")) << p.name;
    } else {
      EXPECT_TRUE(stays(made, leaves, p.name + "/param")) << p.name;
    }
  }
  EXPECT_EQ(adapters, 2 * 4 * 2);  // layers, products, matrices
}

TEST(Adapters, WithoutWhatTheyStandBesideAreRefused) {
  for (const char* model : {"gpt+adapter=4+latent=12", "llama-moe+adapter=4"}) {
    EXPECT_THROW(config_from(settings_of(small_run(model, "bf16").config)), Failure) << model;
  }
}

TEST(IdleLayers, TakeTurnsAndRest) {
  Training run = small_run("llama+idle_layers=1", "bf16", "dp2");
  Values leaves = leaves_of_run(run);
  for (run.step = 1; run.step <= 3; ++run.step) {
    const Values made = step_of(run, leaves);
    for (const Parameter& p : parameters(run.config)) {
      const bool idle = layer_of(p.name) == (run.step - 1) % run.config.layers;
      EXPECT_EQ(is_idle(run.config, layer_of(p.name), run.step), idle);
      EXPECT_NE(made.contains(p.name + "/main_grad"), idle) << p.name;
      for (const char* kind : {"/master", "/exp_avg", "/exp_avg_sq"}) {
        EXPECT_EQ(stays(made, leaves, p.name + kind), idle) << p.name << kind;
      }
    }
    leaves = next_state(run.config, run.recipe, made);
    leaves.merge(step_data(run.config, small_text(), run.step + 1));
  }
}

TEST(IdleLayers, ThatLeaveNoLayerOrNoHistoryAreRefused) {
  const Training all = small_run("gpt+idle_layers=2", "bf16");
  EXPECT_THROW(config_from(settings_of(all.config)), Failure);
  const Training delayed = small_run("gpt+idle_layers=1", "fp8-delayed");
  EXPECT_THROW(plan(delayed.config, delayed.recipe, delayed.layout), Failure);
}

}  // namespace
}  // namespace plumb::adapter_test
