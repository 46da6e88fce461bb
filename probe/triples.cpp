#include "probe/triples.hpp"

namespace plumb::probe {
namespace {

void collect(const Tree& tree, std::vector<Triple>& all) {
  for (std::size_t p = 0; p < tree->parts.size(); ++p) {
    const Tree& part = tree->parts[p];
    if (part->parts.empty()) continue;
    const Tree& neighbour = tree->parts[p == 0 ? 1 : 0];
    all.push_back({part->parts[0]->leaf, part->parts[1]->leaf, neighbour->leaf});
    collect(part, all);
  }
}

// A tree by its nodes: the part that each is in, and how deep.
class Nodes {
 public:
  explicit Nodes(const Tree& tree) : leaves_(tree->leaves) { add(tree, 0, 0); }

  bool meet_before(const Triple& t) const {
    return depth_[meeting(t.i, t.j)] > depth_[meeting(t.i, t.k)];
  }

 private:
  void add(const Tree& tree, std::size_t in, std::size_t depth) {
    const std::size_t at = in_.size();
    in_.push_back(in);
    depth_.push_back(depth);
    if (tree->parts.empty()) leaves_[tree->leaf] = at;
    for (const Tree& part : tree->parts) add(part, at, depth + 1);
  }
  std::size_t meeting(std::size_t i, std::size_t j) const {
    std::size_t x = leaves_[i], y = leaves_[j];
    while (x != y) {
      std::size_t& deeper = depth_[x] >= depth_[y] ? x : y;
      deeper = in_[deeper];
    }
    return x;
  }

  std::vector<std::size_t> leaves_, in_, depth_;
};

}  // namespace

std::vector<Triple> triples_of(const Tree& tree) {
  std::vector<Triple> all;
  collect(tree, all);
  return all;
}

std::vector<bool> answers_of(const Tree& tree, const std::vector<Triple>& asked) {
  const Nodes nodes(tree);
  std::vector<bool> all;
  for (const Triple& triple : asked) all.push_back(nodes.meet_before(triple));
  return all;
}

}  // namespace plumb::probe
