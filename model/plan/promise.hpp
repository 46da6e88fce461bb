// model/plan/promise.hpp: shared by the parts of a plan: names, evaluations, and the growing graph.
//
// A part promises the tensors of one module, forward and backward side by side; names as in
// plan.hpp.
//
// TESTED   tests/model/one_rank_test.cpp
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/sees.hpp"
#include "model/spec/config.hpp"
#include "model/spec/layout.hpp"
#include "model/spec/recipe.hpp"
#include "trace/graph.hpp"

namespace plumb::model {

using Ids = std::vector<std::string>;

class Promise {
 public:
  Promise(const Config& config, const Recipe& recipe, const Layout& layout, int of_step)
      : c(config), r(recipe), l(layout), step(of_step) {}

  const Config& c;
  const Recipe& r;
  const Layout& l;
  int step;
  Phase phase = Phase::forward;  // of the nodes that follow
  int micro_batch = 0;           // that ids speak of
  // The ids cast under delayed scaling, by the id of the copy without micro-batch.
  std::map<std::string, Ids> delayed;
  Graph graph;

  // Gradients of frozen parameters are not promised.
  void node(std::string op, Ids inputs, Ids outputs, Evaluation how, Attributes attributes = {}) {
    const std::string& first = outputs.front();
    if (first.ends_with("/wgrad") && is_frozen(c, first)) return;
    how.by_chance = draws_results(r, l) && how.output == r.compute && phase <= Phase::backward;
    graph.nodes.push_back(
        {std::move(op), std::move(inputs), std::move(outputs), std::move(attributes), how, phase});
  }

  // --- evaluations ---
  Evaluation plain() const { return {1, fp32, r.compute}; }
  Evaluation on_stream() const { return {1, fp32, r.stream}; }
  static Evaluation in_fp32() { return {1, fp32, fp32}; }
  // A contraction that tensor-parallel ranks share; its parts travel in the recipe's wire format.
  Evaluation across_tp() const { return l.tp == 1 ? plain() : Evaluation{l.tp, r.wire, r.compute}; }
  // Sums over tokens, of which each context-parallel rank has some; for a replicated parameter,
  // sequence-parallel ranks each hold a slice of those.
  Evaluation over_contexts() const { return {l.cp, fp32, fp32, {l.cp, l.cp > 1 ? c.sequence : 0}}; }
  Evaluation over_tokens() const {
    Evaluation how = over_contexts();
    if (l.sp) how.parts *= l.tp;
    return how;
  }
  // The same of experts: sliced, or whole for the tokens of each slice.
  Evaluation across_slices_of_experts() const { return l.whole_experts ? plain() : across_tp(); }
  Evaluation over_tokens_of_experts() const {
    return l.whole_experts ? over_tokens() : over_contexts();
  }
  // Gradients of a parameter that all heads share: every tensor-parallel rank has some heads, for
  // all tokens of its context.
  Evaluation over_heads() const {
    Evaluation how = over_contexts();
    how.parts *= l.tp;
    return how;
  }
  Evaluation over_vocabulary() const { return {l.tp, fp32, fp32}; }
  Evaluation over_dp() const { return {l.dp, fp32, fp32}; }
  // Gradients of an expert's parameter: the ranks that have it take the tokens of all ranks.
  Evaluation over_copies(const Parameter& of) const {
    return of.expert < 0 ? over_dp() : Evaluation{l.expert_copies(), fp32, fp32};
  }

  // --- names ---
  static std::string of(int m, const std::string& module, const std::string& kind) {
    return "m" + std::to_string(m) + "/" + module + "/" + kind;
  }
  std::string at(const std::string& module, const std::string& kind) const {
    return of(micro_batch, module, kind);
  }
  static std::string weight(const std::string& module) { return module + ".weight/param@previous"; }
  static std::string bias(const std::string& module) { return module + ".bias/param@previous"; }
  static std::string layer(int n) { return "layers." + std::to_string(n); }
  // What a product of a layer hands on, with its adapter or without one.
  std::string output_of(const std::string& product) const {
    return at(c.adapter > 0 ? product + ".adapted" : product, "out");
  }
  bool gpt() const { return c.family == Family::gpt; }
  // The module whose matrix the head multiplies with.
  std::string head() const { return c.tied() ? "embedding" : "head"; }
};

}  // namespace plumb::model
