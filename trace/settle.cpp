#include "trace/settle.hpp"

#include <algorithm>

namespace plumb::trace {

Replayed Replays::of(const Wanted& wanted) {
  if (!by_) return {};
  Replayed seen = by_(wanted);
  ratios_.insert(seen.ratios.begin(), seen.ratios.end());
  return seen;
}

void Replays::all() {
  if (all_) return;
  all_ = true;
  of([this](const std::string& id) { return !known(id); });
}

std::optional<bool> Replays::passes(const std::string& id) {
  if (!ratios_.contains(id)) of([&](const std::string& other) { return other == id; });
  const std::optional<double> ratio = known(id);
  return ratio ? std::optional(*ratio <= 1) : std::nullopt;
}

std::set<std::string> held_by(const TwinsJudgement& twins) {
  std::set<std::string> held;
  for (const auto& [id, worst] : twins.worst) {
    if (!twins.one_row.contains(id) && !twins.noisy.contains(id)) held.insert(id);
  }
  return held;
}

bool Accounts::holds(const std::string& id) {
  const auto pair = pairs_.find(id);
  if (pair == pairs_.end()) return false;
  if (pair->second.both && (pair->second.equal || by_twins_.contains(id))) return true;
  const auto [place, is_new] = known_.emplace(id, false);  // a circle accounts for nothing
  if (!is_new) return place->second;
  const Node* node = node_of_(id);
  return place->second =
             node != nullptr && replays_.passes(id) == true &&
             std::ranges::all_of(node->inputs, [&](const auto& input) { return holds(input); });
}

}  // namespace plumb::trace
