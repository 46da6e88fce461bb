#include "trace/placements/suggest.hpp"

#include <algorithm>
#include <set>

#include "trace/difference.hpp"
#include "trace/merge.hpp"
#include "trace/trace.hpp"

namespace plumb::trace {
namespace {

constexpr double nearest_wrong = 0.0829;  // as of the rule flat

// What one axis may do with a tensor of so many dimensions.
std::vector<Split> choices(std::size_t axis, std::size_t dimensions) {
  std::vector<Split> all{{axis, Split::Kind::replicate}, {axis, Split::Kind::partial}};
  for (std::size_t dim = 0; dim < dimensions; ++dim) {
    Split plain{axis, Split::Kind::shard, dim}, zigzag = plain, halves = plain;
    zigzag.zigzag = true;
    halves.stride = 2;
    for (const Split& split : {plain, zigzag, halves}) all.push_back(split);
  }
  return all;
}

class Search {
 public:
  Search(const Extents& whole, const std::vector<Held>& held, const Mesh& mesh,
         const Tensor* reference)
      : whole_(whole), held_(held), mesh_(mesh), reference_(reference) {
    for (const Held& h : held) {
      holders_.push_back(h.rank);
      ranks_ = std::max(ranks_, h.rank + 1);
    }
    for (const Axis& axis : mesh.axes) all_ranks_ *= axis.size;
  }

  Outcome<std::vector<Sharding>> run() {
    const std::vector<std::size_t> axes = shared_axes();
    double many = 1;
    for (std::size_t n = 0; n < axes.size(); ++n) {
      many *= static_cast<double>((n + 1) * (2 + 3 * whole_.size()));
    }
    if (many > static_cast<double>(most_tried)) {
      return Refusal{Why::unsupported, "more than " + std::to_string(most_tried) +
                                           " placements to try, on " + std::to_string(axes.size()) +
                                           " axes"};
    }
    std::vector<std::size_t> order = axes;
    do {
      extend({}, order, 0);
    } while (std::ranges::next_permutation(order).found);
    drop_sums();
    return std::move(fits_);
  }

 private:
  // The axes on which holders have more than one place.
  std::vector<std::size_t> shared_axes() const {
    std::vector<std::set<std::size_t>> places(mesh_.axes.size());
    for (const std::size_t rank : holders_) {
      const std::vector<std::size_t> place = mesh_.place_of(rank);
      for (std::size_t a = 0; a < place.size(); ++a) places[a].insert(place[a]);
    }
    std::vector<std::size_t> shared;
    for (std::size_t a = 0; a < places.size(); ++a) {
      if (places[a].size() > 1) shared.push_back(a);
    }
    return shared;
  }

  void extend(const Sharding& so_far, const std::vector<std::size_t>& order, std::size_t next) {
    if (next == order.size()) return look_at(so_far);
    for (const Split& split : choices(order[next], whole_.size())) {
      Sharding more = so_far;
      more.push_back(split);
      extend(more, order, next + 1);
    }
  }

  void look_at(const Sharding& sharding) {
    Trace trace;
    trace.ranks.resize(ranks_);
    for (const Held& h : held_) {  // shapes first: they cost little, and most differ
      const auto shape = shard_of(h.rank, whole_, sharding, mesh_);
      if (!shape || *shape != h.shape) return;
    }
    if (owed_to(holders_, sharding, mesh_, all_ranks_) != holders_) return;
    std::vector<Placement> places;
    for (const Held& h : held_) {
      const auto nd = held_by(h.rank, h.shape, whole_, sharding, mesh_);
      if (!nd) return;
      const auto flat = flattened(*nd);
      if (!flat) return;
      places.push_back(*flat);
    }
    if (std::ranges::find(seen_, places) != seen_.end()) return;
    for (std::size_t h = 0; h < held_.size(); ++h) {
      trace.ranks[held_[h].rank].shards["x"] = {places[h], held_[h].values, fp32};
    }
    seen_.push_back(std::move(places));
    const Merged merged = merge(trace);
    if (merged.findings.empty() && near(*merged.values.at("x"))) fits_.push_back(sharding);
  }

  bool near(const Tensor& made) const {
    if (reference_ == nullptr) return true;
    return made.rows == reference_->rows && made.cols == reference_->cols &&
           difference(made.values, reference_->values).relative() <= nearest_wrong;
  }

  void drop_sums() {
    if (reference_ != nullptr) return;
    const auto sums = [](const Sharding& sharding) {
      return std::ranges::any_of(
          sharding, [](const Split& split) { return split.kind == Split::Kind::partial; });
    };
    if (!std::ranges::all_of(fits_, sums)) std::erase_if(fits_, sums);
  }

  const Extents& whole_;
  const std::vector<Held>& held_;
  const Mesh& mesh_;
  const Tensor* reference_;
  std::vector<std::size_t> holders_;
  std::size_t ranks_ = 0, all_ranks_ = 1;
  std::vector<std::vector<Placement>> seen_;
  std::vector<Sharding> fits_;
};

}  // namespace

Outcome<std::vector<Sharding>> fitting(const Extents& whole, const std::vector<Held>& held,
                                       const Mesh& mesh, const Tensor* reference) {
  return Search(whole, held, mesh, reference).run();
}

}  // namespace plumb::trace
