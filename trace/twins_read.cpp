#include "trace/twins_read.hpp"

#include <algorithm>
#include <optional>

#include "trace/store/carried.hpp"
#include "trace/whole.hpp"

namespace plumb::trace {

std::string name_of_twin(std::size_t k) { return "twin " + std::to_string(k + 1); }

TwinsRead::TwinsRead(const Run& reference, const std::vector<const Trace*>& twins,
                     const Hands& hands)
    : reference_(reference) {
  for (const Trace* twin : twins) runs_.emplace_back(*twin);
  std::set<std::string> all;
  for (const Run& run : runs_) {
    for (const auto& [id, whole] : run.values) all.insert(id);
  }
  const std::vector<std::string> ids(all.begin(), all.end());
  const auto looked =
      results<OfTwins>(hands, ids.size(), [&](std::size_t i) { return look(ids[i]); });
  std::vector<std::map<std::string, Shown>> seen(runs_.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    moved_.emplace(ids[i], looked[i].moved);
    for (std::size_t k = 0; k < runs_.size(); ++k) {
      if (runs_[k].values.contains(ids[i])) seen[k].emplace(ids[i], looked[i].seen[k]);
    }
  }
  for (std::size_t k = 0; k < runs_.size(); ++k) runs_[k].tell(seen[k]);
}

bool TwinsRead::moves(std::size_t k, const std::string& id) const {
  const auto found = moved_.find(id);
  return found != moved_.end() && found->second[k];
}

Around TwinsRead::around(const std::string& id) const {
  Around one{reference_.values.at(id), {}};
  for (const Run& run : runs_) one.twins.push_back(run.values.at(id));
  return one;
}

OfTwins TwinsRead::look(const std::string& id) const {
  OfTwins one{std::vector<Shown>(runs_.size()), std::vector<bool>(runs_.size())};
  const auto r = reference_.values.find(id);
  for (std::size_t k = 0; k < runs_.size(); ++k) {
    const auto t = runs_[k].values.find(id);
    if (t == runs_[k].values.end()) continue;
    const bool comparable = r != reference_.values.end() && r->second.has_shape_of(t->second);
    bool same = comparable;
    std::optional<Reading> of_r;
    if (comparable) of_r.emplace(r->second);
    Reading of_t(t->second);
    by_stretches(t->second.size(), [&](std::size_t first, std::size_t n) {
      const float* x = of_t(first, n);
      t->second.elements->hold_together(first, n, one.seen[k].disagreements);
      one.seen[k].finite = one.seen[k].finite && all_finite(x, n);
      if (same) same = std::equal(x, x + n, (*of_r)(first, n));
      return true;
    });
    one.moved[k] = !same;
  }
  return one;
}

}  // namespace plumb::trace
