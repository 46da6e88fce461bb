#include "model/spec/ownership.hpp"

#include <algorithm>

namespace plumb::model {

bool on_both_ends(const Config& c, const Parameter& p) {
  return (c.tied() || c.mtp > 0) && p.name == "embedding.weight";
}

bool holds_module(const Config& c, const Layout& l, const Coordinates& at,
                  const std::vector<Stage>& stages, const std::string& module) {
  const bool begins = at.pp == 0, ends = at.pp == l.pp - 1;
  const int layer = layer_of(module);
  if (layer < 0) {
    const bool at_the_end = module.starts_with("head") || module.starts_with("final_norm") ||
                            module.starts_with("mtp.") || module.starts_with("loss");
    return at_the_end ? ends : begins;
  }
  if (layer == c.layers) return ends;  // the extra head's
  for (std::size_t s = static_cast<std::size_t>(at.pp); s < stages.size();
       s += static_cast<std::size_t>(l.pp)) {
    if (layer >= stages[s].first && layer < stages[s].last) return true;
  }
  return false;
}

bool holds(const Config& c, const Layout& l, const Coordinates& at,
           const std::vector<Stage>& stages, const Parameter& p) {
  if (p.expert >= 0 && p.expert / (c.experts / l.ep) != at.dp / l.expert_copies()) return false;
  return holds_module(c, l, at, stages, p.name) || (on_both_ends(c, p) && at.pp == l.pp - 1);
}

Sharding held_as(const Layout& layout, const Parameter& p) {
  return layout.whole_experts && p.expert >= 0 ? Sharding::whole : p.sharding;
}

int key_copies(const Config& c, const Layout& l) { return std::max(1, l.tp / c.kv_heads); }

std::vector<Columns> columns_of_heads(const Config& c, const Layout& l, int tp) {
  const auto whole = static_cast<std::size_t>(c.qkv_width());
  const auto ranks = static_cast<std::size_t>(l.tp), rank = static_cast<std::size_t>(tp);
  const auto copies = static_cast<std::size_t>(key_copies(c, l));
  if (copies == 1) return {{whole / ranks * rank, whole / ranks}};
  const auto dim = static_cast<std::size_t>(c.head_dim());
  const std::size_t group = whole / static_cast<std::size_t>(c.kv_heads), keys = group - 2 * dim;
  const std::size_t start = rank / copies * group, queries = keys / copies;
  return {{start + rank % copies * queries, queries}, {start + keys, 2 * dim}};
}

}  // namespace plumb::model
