#include "model/plan/rewriting.hpp"

#include <algorithm>

namespace plumb::model {
namespace {

std::string kind_in(const std::string& id) { return id.substr(id.rfind('/') + 1); }

bool is_stream(const std::string& id) {
  const std::string kind = kind_in(id);
  return kind == "out" || kind == "grad_in" || kind == "grad_out";
}

// The end of the n-th word of a name with dots.
std::size_t end_of_word(const std::string& name, int n) {
  std::size_t end = name.find('.');
  for (; n > 1 && end != name.npos; --n) end = name.find('.', end + 1);
  return end;
}

}  // namespace

std::string module_of(const std::string& id) {
  const std::string rest = without_micro_batch(id);
  const std::string path = rest.substr(0, rest.rfind('/'));
  if (path.ends_with("head") && kind_in(rest) == "grad_out") {
    return path.substr(0, path.size() - 4) + "loss";
  }
  const int words = path.starts_with("layers.") ? 3 : path.starts_with("mtp.") ? 2 : 1;
  return path.substr(0, end_of_word(path, words));
}

std::vector<std::string> modules_of(const std::vector<Finding>& findings) {
  std::vector<std::string> modules;
  for (const Finding& f : findings) {
    const std::string module = module_of(f.id);
    if (std::ranges::find(modules, module) == modules.end()) modules.push_back(module);
  }
  return modules;
}

std::map<std::string, Format> handed_on(const Graph& graph) {
  std::map<std::string, Format> made, taken;
  for (const Node& node : graph.nodes) {
    const std::string here = module_of(node.outputs.front());
    for (const std::string& id : node.inputs) {
      const auto found = made.find(id);
      if (found != made.end() && module_of(id) != here) taken.insert(*found);
    }
    for (const std::string& id : node.outputs) {
      if (is_stream(id)) made.emplace(id, node.how.output);
    }
  }
  return taken;
}

Graph rewritten(Graph graph) {
  const auto taken = handed_on(graph);
  for (Node& node : graph.nodes) {
    for (std::string& id : node.inputs) {
      if (taken.contains(id)) id = rewritten_id(id);
    }
  }
  return graph;
}

}  // namespace plumb::model
