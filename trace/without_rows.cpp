#include "trace/without_rows.hpp"

#include <algorithm>
#include <cmath>

#include "number/outcome.hpp"
#include "trace/execute.hpp"

namespace plumb::trace {

WithoutRows::WithoutRows(const Graph& graph, const Values& run, const Values& reference,
                         const std::map<std::string, std::size_t>& rows)
    : run_(run), reference_(reference), rows_(rows) {
  for (const Node& node : graph.nodes) {
    for (const std::string& id : node.outputs) makers_[id] = &node;
  }
}

const Tensor* WithoutRows::of(const std::string& id) {
  const auto [place, is_new] = known_.emplace(id, nullptr);
  if (is_new) {
    const auto tensor = made(id);
    known_[id] = tensor;
    return tensor.get();
  }
  return place->second.get();
}

std::shared_ptr<const Tensor> WithoutRows::made(const std::string& id) {
  if (!run_.contains(id)) return nullptr;
  const auto row = rows_.find(id);
  if (row != rows_.end()) return row_of_reference(id, row->second);
  const auto maker = makers_.find(id);
  if (maker == makers_.end()) return nullptr;
  bool any = false;
  for (const std::string& input : maker->second->inputs) {
    if (!run_.contains(input)) return nullptr;
    any = of(input) != nullptr || any;
  }
  return any ? moved(id, *maker->second) : nullptr;
}

std::shared_ptr<const Tensor> WithoutRows::row_of_reference(const std::string& id,
                                                            std::size_t row) const {
  const auto found = reference_.find(id);
  Tensor x = *run_.at(id);
  if (found == reference_.end() || found->second->cols != x.cols || found->second->rows != x.rows) {
    return nullptr;
  }
  std::copy_n(found->second->row(row), x.cols, x.row(row));
  return std::make_shared<const Tensor>(std::move(x));
}

// The run's tensor, moved by what the promised operation makes of the rows.
std::shared_ptr<const Tensor> WithoutRows::moved(const std::string& id, const Node& node) {
  Values as_run, without;
  for (const std::string& input : node.inputs) {
    as_run[input] = run_.at(input);
    const auto& other = known_.at(input);
    without[input] = other ? other : run_.at(input);
  }
  try {
    make(node, as_run);
    make(node, without);
  } catch (const Failure&) {  // of what the run holds the operation makes nothing: replay says so
    return nullptr;
  }
  Tensor x = *run_.at(id);
  const Tensor &from = *as_run.at(id), &to = *without.at(id);
  if (from.size() != x.size() || to.size() != x.size()) return nullptr;
  for (std::size_t e = 0; e < x.size(); ++e) x.values[e] += to.values[e] - from.values[e];
  if (!std::ranges::all_of(x.values, [](float v) { return std::isfinite(v); })) return nullptr;
  return std::make_shared<const Tensor>(std::move(x));
}

}  // namespace plumb::trace
