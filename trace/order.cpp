#include "trace/order.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "trace/messages.hpp"
#include "trace/structure.hpp"

namespace plumb::trace {

DataflowOrder::DataflowOrder(const Graph& graph) : promised_(true) {
  for (const Node& node : graph.nodes) {
    for (const std::string& id : node.outputs) {
      place_.emplace(id, place_.size() + 1);
      phase_.emplace(id, node.phase);
    }
  }
  for (const std::string& id : leaves_of(graph)) given_.insert(id);
}

DataflowOrder::DataflowOrder(const Abouts& about) : promised_(false) {
  for (const auto& [id, says] : about) {
    if (says.order) place_.emplace(id, *says.order);
    if (says.phase) phase_.emplace(id, *says.phase);
    if (says.role == Role::given) given_.insert(id);
    if (says.role == Role::decision) decisions_.insert(id);
  }
}

std::size_t DataflowOrder::operator()(const std::string& id) const {
  const auto found = place_.find(id);
  if (found != place_.end()) return found->second;
  return promised_ && given_.contains(id) ? 0 : std::numeric_limits<std::size_t>::max();
}

Phase DataflowOrder::phase_of(const std::string& id) const {
  const auto found = phase_.find(id);
  return found == phase_.end() ? Phase::forward : found->second;
}

bool DataflowOrder::made(const std::string& id) const {
  return promised_ ? place_.contains(id) : !given_.contains(id);
}

namespace {

const About& said_of(const std::string& id, const Abouts& about) {
  static const About nothing;
  const auto found = about.find(id);
  return found == about.end() ? nothing : found->second;
}

// The order that any of some tensors was made at, or earlier: 0 where one does not say it.
std::uint64_t earliest(const std::set<std::string>& ids, const Abouts& about) {
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
  for (const std::string& id : ids) first = std::min(first, said_of(id, about).order.value_or(0));
  return first;
}

}  // namespace

std::set<std::string> maybe_made_from(const std::set<std::string>& roots,
                                      const std::set<std::string>& ids, const Abouts& about) {
  if (roots.empty()) return {};
  // Ids that are in no trace may hide anything: then the tensor is as one that does not say.
  const auto tells = [&](const About& says) {
    return says.from && std::ranges::all_of(*says.from, [&](const std::string& id) {
             return ids.contains(id) || about.contains(id);
           });
  };
  std::set<std::string> reached = roots;
  for (std::size_t before = 0; before != reached.size();) {
    before = reached.size();
    const std::uint64_t first = earliest(reached, about);
    for (const std::string& id : ids) {
      const About& says = said_of(id, about);
      if (says.role == Role::given || reached.contains(id)) continue;
      const bool made_from_one =
          tells(says) ? std::ranges::any_of(
                            *says.from, [&](const auto& other) { return reached.contains(other); })
                      : !says.order || first == 0 || *says.order > first;
      if (made_from_one) reached.insert(id);
    }
  }
  for (const std::string& id : roots) reached.erase(id);
  return reached;
}

void put_in_order(std::vector<Finding>& findings, const DataflowOrder& order) {
  const auto starts = [](const Finding& f) { return f.detail.starts_with(starts_otherwise); };
  std::size_t last = 0;  // of those given that are wrong by themselves
  for (const Finding& f : findings) {
    if (order.given(f.id) && !starts(f)) last = std::max(last, order(f.id));
  }
  std::ranges::stable_sort(findings, {}, [&](const Finding& f) {
    const std::size_t place = starts(f) ? std::max(order(f.id), last) : order(f.id);
    return std::tuple(!is_of_file(f), !is_message(f.id), place, starts(f));
  });
}

}  // namespace plumb::trace
