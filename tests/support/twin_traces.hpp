// A run of plumb's own and twins of it, as traces of a producer that promises nothing.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "kernels/backend.hpp"
#include "model/run/reference.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/check.hpp"

namespace plumb {

inline Trace of_one_rank(const Manifest& manifest, const Values& values, const Merged& like) {
  Trace trace;
  trace.manifest = manifest;
  trace.manifest.world_size = 1;
  trace.ranks.resize(1);
  for (const auto& [id, tensor] : values) {
    if (!like.values.contains(id)) continue;
    trace.ranks[0].shards[id] = {whole(tensor->rows, tensor->cols), *tensor, like.formats.at(id)};
  }
  return trace;
}

// The order of execution is that of the promise, leaves are given, as a producer would say it.
class WithTwinTraces : public testing::Test {
 protected:
  WithTwinTraces() {
    Training run = small_run("llama", "bf16", "tp2");
    const Values leaves = leaves_of_run(run);
    candidate_ = train_step(run, leaves, Joints(), find_backend("reference"));
    many_ = *candidate_.graph;
    run.layout = {};
    reference_ = reference_trace(run, reference(plan(run.config, run.recipe, {}), leaves));
    one_ = *reference_.graph;
    r_ = merge(reference_);
    c_ = merge(candidate_);
    for (Values& twin : make_twins(one_, r_.values, many_, options_)) {
      twins_.push_back(of_one_rank(reference_.manifest, twin, r_));
    }
    reference_.graph.reset();
    candidate_.graph.reset();
    std::uint64_t order = 0;
    for (const std::string& id : leaves_of(one_)) reference_.about[id].role = Role::given;
    for (const Node& node : one_.nodes) {
      for (const std::string& id : node.outputs) {
        reference_.about[id].order = ++order;
        // Of the phases before it plumb's own twins know nothing either: classes go by names.
        if (node.phase == Phase::optimizer) reference_.about[id].phase = node.phase;
      }
    }
    options_.rules = {"twins"};
  }

  Verdict verdict() {
    options_.given.clear();
    for (const Trace& twin : twins_) options_.given.push_back(&twin);
    return check(reference_, candidate_, options_);
  }
  // In every rank that holds the tensor.
  void change(const std::string& id, const std::function<void(Tensor&)>& how) {
    for (RankRecord& rank : candidate_.ranks) {
      const auto found = rank.shards.find(id);
      if (found != rank.shards.end()) how(found->second.values);
    }
  }
  static void scale(Tensor& x, float by) {
    for (float& v : x.values) v *= by;
  }
  std::string refusal() {
    try {
      verdict();
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "";
  }

  Trace reference_, candidate_;
  Graph one_, many_;
  Merged r_, c_;
  std::vector<Trace> twins_;
  CheckOptions options_;
};

}  // namespace plumb
