#include "trace/graph.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace plumb::trace {

const Traits& traits_of(const Node& node) {
  static constexpr Traits none;
  const Operation* operation = find_operation(node.op);
  return operation == nullptr ? none : operation->traits;
}

std::vector<std::string> leaves_of(const Graph& graph) {
  std::set<std::string_view> known;
  std::vector<std::string> leaves;
  for (const Node& node : graph.nodes) {
    for (const std::string& id : node.inputs) {
      if (known.insert(id).second) leaves.push_back(id);
    }
    known.insert(node.outputs.begin(), node.outputs.end());
  }
  return leaves;
}

namespace {

// Is it a sum of two terms in two parts, joined in FP32, and so the chain itself?
bool chain_of_two(const Node& n) {
  return traits_of(n).adds_inputs && n.inputs.size() == 2 &&
         (n.how.parts == 1 || (n.how.parts == 2 && n.how.wire == fp32));
}

bool same_bits(const Node& a, const Node& b) {
  return a.how == b.how || (chain_of_two(a) && chain_of_two(b) && a.how.output == b.how.output);
}

}  // namespace

std::set<std::string> touched(const Graph& one, const Graph& other) {
  if (one.nodes.size() != other.nodes.size()) {
    throw Failure("the two promises have " + std::to_string(one.nodes.size()) + " and " +
                  std::to_string(other.nodes.size()) +
                  " nodes: they are not of one configuration; trace both with the same model");
  }
  std::set<std::string> result;
  for (std::size_t i = 0; i < one.nodes.size(); ++i) {
    const Node& a = one.nodes[i];
    const Node& b = other.nodes[i];
    if (a.op != b.op || a.inputs != b.inputs || a.outputs != b.outputs ||
        a.attributes != b.attributes) {
      throw Failure("the two promises disagree on how '" + a.outputs.front() +
                    "' comes about: they are not of one configuration; trace both with the same "
                    "model, data and step");
    }
    const bool differs = !same_bits(a, b) || std::ranges::any_of(a.inputs, [&](const auto& id) {
      return result.contains(id);
    });
    if (differs) result.insert(a.outputs.begin(), a.outputs.end());
  }
  return result;
}

Graph in_any_order(Graph graph) {
  for (Node& node : graph.nodes) node.how.any_order = traits_of(node).kind == Kind::product;
  return graph;
}

Graph in_any_rank_order(Graph graph) {
  for (Node& node : graph.nodes) {
    node.how.any_rank_order = node.how.parts > 2 && !traits_of(node).shaped_by_parts;
  }
  return graph;
}

bool has_any_rank_order(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& n) { return n.how.any_rank_order; });
}

static constexpr std::string_view mark = "@rewritten";

std::string rewritten_id(const std::string& id) { return id + std::string(mark); }

bool is_rewritten(const std::string& id) { return id.ends_with(mark); }

std::string without_rewriting(const std::string& id) {
  return is_rewritten(id) ? id.substr(0, id.size() - mark.size()) : id;
}

std::string without_micro_batch(const std::string& id) {
  const std::size_t slash = id.find('/');
  const bool numbered =
      id.size() > 1 && id[0] == 'm' && id.find_first_not_of("0123456789", 1) == slash && slash > 1;
  return numbered ? id.substr(slash + 1) : id;
}

std::string kind_of(const std::string& id) {
  const std::string name = without_micro_batch(id);
  std::string kind;
  for (std::size_t at = 0; at < name.size(); ++at) {
    const bool number = name[at] == '.' && at + 1 < name.size() &&
                        std::isdigit(static_cast<unsigned char>(name[at + 1]));
    if (!number) {
      kind += name[at];
      continue;
    }
    while (at + 1 < name.size() && std::isdigit(static_cast<unsigned char>(name[at + 1]))) ++at;
  }
  return kind;
}

}  // namespace plumb::trace
