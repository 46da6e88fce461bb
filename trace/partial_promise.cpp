#include "trace/partial_promise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "bounds/check_call.hpp"
#include "bounds/machine.hpp"
#include "number/rounding.hpp"
#include "number/words.hpp"
#include "trace/order.hpp"
#include "trace/store/carried.hpp"

namespace plumb::trace {
namespace {

using Wanted = std::function<bool(const std::string&)>;

// Tensors of one call that are rounded alike: the same operation on the same inputs.
using MadeAlike = std::tuple<std::string, std::vector<std::string>, Attributes, std::string_view,
                             int, std::string_view>;
MadeAlike call_of(const MadeBy& made, const Evaluation& how) {
  return {made.op, made.inputs, made.attributes, how.output.name, how.parts, how.wire.name};
}

const MadeBy* made_by(const std::string& id, const Abouts& about) {
  const auto found = about.find(id);
  return found != about.end() && found->second.made_by ? &*found->second.made_by : nullptr;
}

// Why a tensor that the reference speaks of cannot be replayed; empty: it can.
std::string why_left_out(const MadeBy& promised, const MadeBy* ran) {
  const Traits& traits = find_operation(promised.op)->traits;
  if (traits.scales_output || traits.shaped_by_parts) {
    return "what " + promised.op + " makes depends on more than made_by says";
  }
  if (ran == nullptr) return "the candidate's producer does not say how it was made";
  if (ran->op != promised.op)
    return "the two runs say otherwise how it was made, " + promised.op + " and " + ran->op;
  if (ran->inputs != promised.inputs || ran->output != promised.output)
    return "the two runs name other inputs or another output of its " + ran->op;
  return "";
}

std::size_t outputs_of(const MadeBy& made) {
  return *check_form(*find_operation(made.op), made.inputs.size(), made.attributes);
}

std::vector<std::string> in_order(const Abouts& about) {
  std::vector<std::string> ids;
  for (const auto& [id, says] : about) ids.push_back(id);
  const DataflowOrder order(about);
  std::ranges::stable_sort(ids, {}, order);
  return ids;
}

// All that a node speaks of, in the shapes that its operation knows: a vector may lie in any.
class Loaded {
 public:
  Loaded(const Node& node, const Run& run) {
    const Operation& operation = *find_operation(node.op);
    const auto operands = check_inputs(operation, node.inputs.size(), node.attributes);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      load(node.inputs[i], (*operands)[i]->cols, run);
    }
    const auto& outputs = operation.schema.outputs;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const bool known = i < outputs.size();
      load(node.outputs[i], known ? (outputs.begin() + i)->cols : std::string_view(), run);
    }
  }
  const Merged& merged() const { return merged_; }

 private:
  void load(const std::string& id, std::string_view cols, const Run& run) {
    const auto found = run.values.find(id);
    if (found == run.values.end() || merged_.values.contains(id)) return;
    Tensor all = in_memory(found->second);
    if (cols == "1") {
      all.rows = all.size();
      all.cols = 1;
    }
    merged_.values.emplace(id, std::make_shared<const Tensor>(std::move(all)));
    merged_.formats.emplace(id, found->second.format);
  }

  Merged merged_;
};

// What a finding or a reason adds up to, of several nodes in their order.
void join(Replayed& all, Replayed&& one) {
  all.ratios.merge(one.ratios);
  all.as_zeros.merge(one.as_zeros);
  for (Finding& f : one.findings) all.findings.push_back(std::move(f));
  for (NotJudged& n : one.not_judged) all.not_judged.push_back(std::move(n));
}

// A number that is none of the format's.
std::optional<float> other_number(const Tensor& x, const Format& format) {
  if (format == fp32) return {};
  Tensor rounded = x;
  round_in_place(rounded.values, format);
  for (std::size_t e = 0; e < x.size(); ++e) {
    if (std::isfinite(x.values[e]) && rounded.values[e] != x.values[e]) return x.values[e];
  }
  return {};
}

// A bound for numbers of a format acquits no others: a coarse one that is not kept would allow anything.
Replayed of_other_formats(const Node& node, const Merged& run) {
  Replayed none;
  if (find_operation(node.op)->traits.scales_output) return none;
  for (const std::string& id : node.outputs) {
    const auto found = run.values.find(id);
    if (found == run.values.end()) continue;
    const Format& format = run.formats.at(id);
    const auto other = other_number(*found->second, format);
    if (!other) continue;
    none.not_judged.push_back(
        {id, fmt::format("is said to be in {}, and holds {:.9g}, which is none of its numbers",
                         format.name, *other)});
  }
  return none;
}

// Is the wire said to lose more than the format in which the sum is kept?
bool loses_more(const Evaluation& how) {
  return how.parts > 1 && (how.wire.precision < how.output.precision ||
                           how.wire.spacing_at_zero() > how.output.spacing_at_zero());
}

}  // namespace

PartialPromise::PartialPromise(const Told& reference, const Told& candidate)
    : reference_(reference), candidate_(candidate) {
  std::map<MadeAlike, std::size_t> number_of;
  for (const std::string& id : in_order(reference.about)) {
    const About& says = reference.about.at(id);
    const auto format = candidate.run.values.find(id);
    if (!says.made_by || format == candidate.run.values.end()) continue;
    const MadeBy& promised = *says.made_by;
    const MadeBy* ran = made_by(id, candidate.about);
    if (const std::string why = why_left_out(promised, ran); !why.empty()) {
      left_out_.push_back({id, why});
      continue;
    }
    if (static_cast<std::size_t>(ran->parts) > candidate.ranks) {
      left_out_.push_back({id, fmt::format("its sum is said to have {} parts, and there {} {}",
                                           ran->parts, candidate.ranks == 1 ? "is" : "are",
                                           how_many(candidate.ranks, "rank"))});
      continue;
    }
    Evaluation how;
    how.output = format->second.format;
    how.parts = ran->parts;
    how.any_rank_order = ran->parts > 2;  // nobody says in which
    how.wire = ran->wire.value_or(format->second.format);
    const auto [place, is_new] = number_of.try_emplace(call_of(promised, how), nodes_.size());
    if (is_new) {
      Node node{promised.op, promised.inputs, {}, promised.attributes, how};
      node.outputs.resize(outputs_of(promised));
      nodes_.push_back(std::move(node));
    }
    std::string& output = nodes_[place->second].outputs.at(promised.output);
    if (!output.empty()) {
      left_out_.push_back({id, "'" + output + "' is said to be the same output of one call"});
      continue;
    }
    output = id;
    node_of_.emplace(id, place->second);
  }
}

const Node* PartialPromise::node_of(const std::string& id) const {
  const auto found = node_of_.find(id);
  return found == node_of_.end() ? nullptr : &nodes_[found->second];
}

bool PartialPromise::is_update(const std::string& id) const {
  const Node* node = node_of(id);
  return node != nullptr && find_operation(node->op)->traits.updates;
}

std::size_t PartialPromise::in_any_rank_order() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(nodes_, [](const Node& n) { return n.how.any_rank_order; }));
}

bool PartialPromise::keeps(const Node& node, const Run& run, const ReplayOptions& options) const {
  Graph graph;
  graph.nodes.push_back(node);
  return replay(
             graph, Loaded(node, run).merged(), [](const auto&) { return true; }, options)
      .findings.empty();
}

// Nothing shows the wire that a producer names: no bound acquits by it that finds by the format of the sum.
Replayed PartialPromise::of_coarse_wire(const Node& node, const ReplayOptions& options) const {
  Node kept = node;
  kept.how.wire = node.how.output;
  Replayed none;
  if (keeps(kept, candidate_.run, options)) return none;
  for (const std::string& id : node.outputs) {
    if (id.empty()) continue;
    none.not_judged.push_back(
        {id,
         fmt::format("only parts that travel in {} explain it, as its producer says and nothing "
                     "shows; it is kept in {}",
                     node.how.wire.name, node.how.output.name)});
  }
  return none;
}

Replayed PartialPromise::one(const Node& node, const Wanted& wanted,
                             const ReplayOptions& options) const {
  Graph graph;
  graph.nodes.push_back(node);
  const Loaded loaded(node, candidate_.run);
  Replayed seen = replay(graph, loaded.merged(), wanted, options);
  std::erase_if(seen.not_judged, [](const NotJudged& n) { return n.id.empty(); });
  for (const std::string& id : seen.as_zeros) {
    seen.ratios.erase(id);
    seen.not_judged.push_back({id, "the bound of " + node.op +
                                       " is as large as what it makes here: "
                                       "zeros would be within"});
  }
  if (seen.findings.empty()) {
    Replayed none = of_other_formats(node, loaded.merged());
    if (none.not_judged.empty() && loses_more(node.how)) none = of_coarse_wire(node, options);
    return none.not_judged.empty() ? seen : none;
  }
  if (alone_) return seen;
  Node alone = node;
  const auto first = std::ranges::find_if(node.outputs, [](const auto& id) { return !id.empty(); });
  const MadeBy* promised = made_by(*first, reference_.about);
  alone.how.parts = promised->parts;
  if (keeps(alone, reference_.run, options)) return seen;
  Replayed none;
  for (const std::string& id : node.outputs) {
    if (id.empty()) continue;
    none.not_judged.push_back({id, "the reference does not hold what " + node.op +
                                       " makes of its inputs either, so it is made otherwise"});
  }
  return none;
}

Replayed PartialPromise::replayed(const Wanted& wanted, const ReplayOptions& options,
                                  const Hands& hands) const {
  std::vector<const Node*> nodes;
  for (const Node& node : nodes_) {
    const auto asked = [&](const std::string& id) { return !id.empty() && wanted(id); };
    if (std::ranges::any_of(node.outputs, asked)) nodes.push_back(&node);
  }
  ReplayOptions each = options;
  each.false_alarm /= static_cast<double>(std::max<std::size_t>(nodes.size(), 1));
  auto seen = results<Replayed>(hands, nodes.size(),
                                [&](std::size_t i) { return one(*nodes[i], wanted, each); });
  Replayed all;
  for (Replayed& s : seen) join(all, std::move(s));
  return all;
}

}  // namespace plumb::trace
