#include "trace/decisions.hpp"

#include "trace/execute.hpp"

namespace plumb::trace {
namespace {

std::size_t rows_that_differ(const Tensor& a, const Tensor& b) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < a.rows; ++i) {
    n += std::equal(a.row(i), a.row(i) + a.cols, b.row(i)) ? 0 : 1;
  }
  return n;
}

// Returns the choice that the node makes of its inputs.
Tensor choice(const Node& node, const Values& values) {
  RealRoundings roundings;
  Call<float> call{{}, node.attributes, node.how, roundings};
  for (const std::string& id : node.inputs) call.inputs.push_back(values.at(id).get());
  return std::move(find_operation(node.op)->evaluate(call)[0]);
}

}  // namespace

bool is_decision(const Node& node) { return traits_of(node).choice; }

std::set<std::string> decisions_of(const Graph& graph) {
  std::set<std::string> ids;
  for (const Node& node : graph.nodes) {
    if (is_decision(node)) ids.insert(node.outputs.front());
  }
  return ids;
}

Forced forced(const Graph& graph, const Values& reference, const Values& candidate) {
  Forced result{reference};
  Values choices;
  for (const std::string& id : decisions_of(graph)) {
    const auto r = reference.find(id), c = candidate.find(id);
    if (r == reference.end() || c == candidate.end()) continue;
    if (r->second->rows != c->second->rows || r->second->cols != c->second->cols) continue;
    choices.insert(*c);
    result.decisions += c->second->rows;
    result.differ = result.differ || r->second->values != c->second->values;
  }
  if (!result.differ) return result;
  result.values = with_replaced(graph, reference, choices);
  for (const Node& node : graph.nodes) {
    const auto chosen = choices.find(node.outputs.front());
    if (chosen == choices.end()) continue;
    result.rows += rows_that_differ(choice(node, result.values), *chosen->second);
  }
  return result;
}

}  // namespace plumb::trace
