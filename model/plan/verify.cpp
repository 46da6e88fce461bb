#include "model/plan/verify.hpp"

#include <algorithm>
#include <limits>

#include "model/plan/plan.hpp"
#include "model/plan/shards.hpp"
#include "model/spec/layout.hpp"
#include "model/spec/manifest.hpp"
#include "model/state/state.hpp"
#include "model/step/train_step.hpp"

namespace plumb::model {
namespace {

void same_nodes(const Graph& stored, const Graph& planned) {
  const auto refuse = [](const std::string& where) {
    throw Failure("the promise in graph.json is not what the manifest's settings make, first at '" +
                  where + "'; trace again");
  };
  if (stored.nodes.size() != planned.nodes.size()) refuse("the number of nodes");
  for (std::size_t i = 0; i < planned.nodes.size(); ++i) {
    const Node& a = stored.nodes[i];
    const Node& b = planned.nodes[i];
    if (a.op != b.op || a.inputs != b.inputs || a.outputs != b.outputs ||
        a.attributes != b.attributes || !(a.how == b.how) || a.phase != b.phase) {
      refuse(b.outputs.front());
    }
  }
}

void has_shape(const Merged& merged, const std::string& id, int rows, int cols) {
  const auto found = merged.values.find(id);
  if (found == merged.values.end()) {
    throw Failure("the trace lacks '" + id + "'" + why_not_whole(merged.findings, id) +
                  "; trace again");
  }
  const Tensor& t = *found->second;
  if (t.rows == static_cast<std::size_t>(rows) && t.cols == static_cast<std::size_t>(cols)) return;
  throw Failure("'" + id + "' is " + std::to_string(t.rows) + "x" + std::to_string(t.cols) +
                ", the model's is " + std::to_string(rows) + "x" + std::to_string(cols) +
                "; trace again");
}

// Checks for whole numbers below `end`, so that rows can be found by them.
void numbers(const Merged& merged, const std::string& id, int end, const std::string& what) {
  for (const float x : merged.values.at(id)->values) {
    if (x >= 0 && x < static_cast<float>(end) && x == static_cast<float>(static_cast<int>(x))) {
      continue;
    }
    throw Failure("'" + id + "' holds " + std::to_string(x) + ", which is no " + what +
                  "; trace again");
  }
}

void tokens(const Merged& merged, const std::string& id, const Config& config, int m) {
  has_shape(merged, id, config.tokens(m), 1);
  numbers(merged, id, Config::bytes, "token");
}

void choices(const Merged& merged, const Config& config, int m) {
  for (int n = 0; config.experts > 0 && n < config.blocks(); ++n) {
    const std::string router =
        "m" + std::to_string(m) + "/layers." + std::to_string(n) + ".mlp.router";
    const std::string id = router + "/routing";
    if (!merged.values.contains(id)) continue;  // a finding
    has_shape(merged, id, config.tokens(m), config.top_k);
    numbers(merged, id, config.experts, "expert");
    if (config.capacity == 0) continue;
    has_shape(merged, router + "/kept", config.tokens(m), config.top_k);
    numbers(merged, router + "/kept", config.experts + 1, "expert");  // the last: dropped
  }
}

// Checks the positions of tokens in their documents: from 0, and none before its document begins.
void places(const Merged& merged, const std::string& id, const Config& config, int m) {
  has_shape(merged, id, config.tokens(m), 1);
  numbers(merged, id, config.sequence, "position");
  const auto& at = merged.values.at(id)->values;
  for (std::size_t t = 0; t < at.size(); ++t) {
    if (at[t] <= static_cast<float>(t % static_cast<std::size_t>(config.sequence))) continue;
    throw Failure("'" + id + "' has a token before its document begins; trace again");
  }
}

int micro_batch_of(const std::string& id) { return std::stoi(id.substr(1)); }

// Checks what modules take in where the run is rewritten: logits and their gradients, or a tensor
// of the residual stream.
void taken_in(const Merged& merged, const Graph& graph, const Config& config) {
  for (const std::string& id : leaves_of(graph)) {
    if (!is_rewritten(id) || !merged.values.contains(id)) continue;  // a finding
    const bool logits = id.find("head/") != id.npos && id.find("/grad_in") == id.npos;
    has_shape(merged, id, config.tokens(micro_batch_of(id)),
              logits ? config.vocabulary() : config.width);
  }
}

// What the promise speaks of and no rank has a piece of: a stage that leaves a layer out has none of
// its parameters, and makes none of its tensors. (Data that are not there are refused.)
std::vector<Finding> left_out_of(const Training& run, const Graph& graph, const Merged& merged) {
  std::vector<Finding> findings;
  const auto look = [&](const std::string& id) {
    if (merged.values.contains(id) || !why_not_whole(merged.findings, id).empty()) return;
    findings.push_back({id, "structure", std::numeric_limits<double>::infinity(),
                        "is promised, and no rank has any of it"});
  };
  for (const StateEntry& k : state_entries(run.config, run.recipe)) look(k.id + "@previous");
  for (const Node& node : graph.nodes) std::ranges::for_each(node.outputs, look);
  for (const std::string& id : leaves_of(graph)) {
    if (is_rewritten(id)) look(id);
  }
  return findings;
}

}  // namespace

void verify(const Trace& trace, const Merged& merged) {
  if (!trace.graph) return;
  if (trace.manifest.producer != "plumb") {
    throw Failure(
        "the promise comes from '" + trace.manifest.producer +
        "', and only those that plumb wrote can be checked; without the promise (in a copy "
        "of the trace without graph.json) the rules flat, depth-law and assert-close can");
  }
  const Training run = run_from(trace.manifest);
  if (run.layout.world_size() != trace.manifest.world_size) {
    throw Failure("the layout " + name_of(run.layout) + " makes " +
                  std::to_string(run.layout.world_size()) + " ranks, the manifest says " +
                  std::to_string(trace.manifest.world_size) + "; trace again");
  }
  const bool any_order = has_any_rank_order(*trace.graph);
  same_nodes(*trace.graph, any_order ? in_any_rank_order(plan(run)) : plan(run));
  for (const StateEntry& k : state_entries(run.config, run.recipe)) {
    const std::string id = k.id + "@previous";
    // (One that is not there is a finding, not a refusal.)
    if (merged.values.contains(id)) has_shape(merged, id, k.rows, k.cols);
  }
  for (int m = 0; m < run.config.micro_batches; ++m) {
    const std::string prefix = "m" + std::to_string(m) + "/data/";
    tokens(merged, prefix + "ids", run.config, m);
    tokens(merged, prefix + "labels", run.config, m);
    has_shape(merged, prefix + "mask", run.config.tokens(m), 1);
    if (run.config.mtp > 0) {
      tokens(merged, prefix + "mtp_labels", run.config, m);
      has_shape(merged, prefix + "mtp_mask", run.config.tokens(m), 1);
    }
    if (run.config.documents > 0) places(merged, prefix + "positions", run.config, m);
    choices(merged, run.config, m);
  }
  taken_in(merged, *trace.graph, run.config);
  has_shape(merged, "data/count", 1, 1);
  if (run.config.mtp > 0) has_shape(merged, "data/mtp_count", 1, 1);
}

std::vector<std::string> unseen_claims(const Manifest& manifest) {
  const auto layout = manifest.settings.find("layout");
  if (manifest.producer != "plumb" || layout == manifest.settings.end()) return {};
  const Layout claimed = parse_layout(layout->second);
  std::vector<std::string> claims;
  const auto claim = [&](bool made, const std::string& name, const std::string& does) {
    if (!made) return;
    claims.push_back(name + " " + does +
                     " and changes no bit: a trace does not show whether it ran, so that is not "
                     "judged");
  };
  claim(claimed.offload_activations || claimed.offload_optimizer, "offload",
        "moves tensors to the host and back");
  claim(claimed.overlap != 0, "overlap", "moves transfers to another time");
  return claims;
}

Merged merge_verified(const Trace& trace) {
  Merged merged = merge(trace);
  verify(trace, merged);
  if (!trace.graph) return merged;
  const Training run = run_from(trace.manifest);
  const Shards promised = promised_shards(run, *trace.graph, merged.values);
  for (Finding& f : left_out_of(run, *trace.graph, merged)) merged.findings.push_back(std::move(f));
  for (Finding& f : misplaced(trace, promised)) merged.findings.push_back(std::move(f));
  return merged;
}

}  // namespace plumb::model
