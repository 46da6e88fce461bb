// model/plan/plan.hpp: promises how every tensor of one training step comes about.
//
//   (configuration, recipe, layout) -> graph: forward and backward of each micro-batch,
//   accumulation, reduction, clipping, Adam. It knows no joints, no ranks that run, no bugs.
//
// Ids:   m0/layers.3.attn.proj/out        micro-batch / module / kind
//        m0/layers.3.attn.proj.weight/wgrad, layers.3.attn.proj.weight/main_grad, .../param
//        .../param@previous               state that the step starts from (leaves)
// Kinds: out, grad_out (gradient of a module's output), grad_in (of its input), wgrad,
//        main_grad, clipped_grad, grad_norm, param, master, exp_avg, exp_avg_sq, lse, ids, labels,
//        mask, count (mtp_ in front: targets of the extra head); of routers: probabilities,
//        margin, lse, routing (which experts take each token), kept (the same within their
//        capacity), count (copies that each expert takes), bias, balance_loss, z_loss.
//
// TESTED   tests/model/one_rank_test.cpp, tests/model/gradient_test.cpp
#pragma once

#include "model/sees.hpp"
#include "model/spec/config.hpp"
#include "model/spec/layout.hpp"
#include "model/spec/recipe.hpp"
#include "model/spec/training.hpp"
#include "trace/graph.hpp"

namespace plumb::model {

// `step` counts from 1; Adam's corrections depend on it.
Graph plan(const Config& config, const Recipe& recipe, const Layout& layout, int step = 1);
// The promise of a run: that, or where the run is rewritten what model/plan/rewriting.hpp makes of
// it.
Graph plan(const Training& run);

}  // namespace plumb::model
