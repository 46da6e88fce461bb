#include "trace/check_graph.hpp"

#include <set>

#include "bounds/check_call.hpp"
#include "number/words.hpp"

namespace plumb::trace {
namespace {

// What is wrong with the number of outputs; empty: nothing.
std::string wrong_outputs(const Node& node, std::size_t expected) {
  if (expected == node.outputs.size()) return "";
  return node.op + ": it makes " + how_many(node.outputs.size(), "tensor") + ", and should make " +
         std::to_string(expected);
}

// What is wrong with a node by itself; empty: nothing.
std::string wrong_with(const Node& node) {
  const Operation* operation = find_operation(node.op);
  if (operation == nullptr) return "'" + node.op + "' is no operation of the catalogue";
  const auto outputs = check_form(*operation, node.inputs.size(), node.attributes);
  return outputs ? wrong_outputs(node, *outputs) : outputs.error().detail;
}

}  // namespace

Outcome<std::vector<std::string>> check_graph(const Graph& graph) {
  std::set<std::string> made, read;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const auto refuse = [&](const std::string& why) {
      const std::string which = node.outputs.empty() ? "" : ", of '" + node.outputs.front() + "'";
      return Refusal{Why::unsupported, "node " + std::to_string(i) + which + ": " + why};
    };
    if (const std::string why = wrong_with(node); !why.empty()) return refuse(why);
    read.insert(node.inputs.begin(), node.inputs.end());
    for (const std::string& id : node.outputs) {
      if (read.contains(id)) return refuse("'" + id + "' was read before it is made");
      if (!made.insert(id).second) return refuse("'" + id + "' is made twice");
    }
  }
  return leaves_of(graph);
}

template <class T>
std::string wrong_with(const Node& node, const Operation& operation,
                       const std::vector<const Matrix<T>*>& inputs) {
  std::vector<Shape> shapes;
  for (const Matrix<T>* x : inputs) shapes.push_back({x->rows, x->cols});
  const auto outputs = check_call(operation, shapes, node.attributes, node.how);
  return outputs ? wrong_outputs(node, outputs->size()) : outputs.error().detail;
}
template std::string wrong_with(const Node&, const Operation&,
                                const std::vector<const Matrix<float>*>&);
template std::string wrong_with(const Node&, const Operation&,
                                const std::vector<const Matrix<double>*>&);

}  // namespace plumb::trace
