#include "trace/placements/sharding.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace plumb::trace {
namespace {

constexpr std::size_t most_chunks = 4096;         // as many as ranks
constexpr std::size_t nobodys = ~std::size_t(0);  // where a run of padding begins

// What a rank holds along one dimension, one run of indices after the other.
class Runs {
 public:
  struct Run {
    std::size_t first, size;  // indices of the whole
  };

  explicit Runs(std::size_t n) { add({0, n}); }

  std::size_t length() const { return ends_.empty() ? 0 : ends_.back(); }
  const std::vector<Run>& all() const { return runs_; }

  void pad_to(std::size_t n) { add({nobodys, n - length()}); }

  // Appends what lies from `first` to `last`, counted in these runs, to `into`.
  void copy(std::size_t first, std::size_t last, Runs& into) const {
    auto at = static_cast<std::size_t>(std::ranges::upper_bound(ends_, first) - ends_.begin());
    for (; first < last; ++at) {
      const Run& run = runs_[at];
      const std::size_t begins = ends_[at] - run.size, end = std::min(last, ends_[at]);
      into.add({run.first == nobodys ? nobodys : run.first + (first - begins), end - first});
      first = end;
    }
  }
  static Runs none() { return Runs(0); }

 private:
  void add(Run run) {
    if (run.size == 0) return;
    const bool padding = run.first == nobodys;
    const bool next =
        !runs_.empty() && (padding ? runs_.back().first == nobodys
                                   : runs_.back().first != nobodys &&
                                         runs_.back().first + runs_.back().size == run.first);
    if (next) {
      runs_.back().size += run.size;
      ends_.back() += run.size;
    } else {
      ends_.push_back(length() + run.size);
      runs_.push_back(run);
    }
  }

  std::vector<Run> runs_;
  std::vector<std::size_t> ends_;  // of each run, counted in these runs
};

struct Cut {
  std::size_t first, last;
};
// Chunk i of n, as torch.chunk cuts.
Cut chunk(std::size_t length, std::size_t n, std::size_t i) {
  const std::size_t each = length / n + (length % n == 0 ? 0 : 1);
  return {std::min(i * each, length), std::min((i + 1) * each, length)};
}

std::size_t sum_of(const Extents& sizes) {
  std::size_t sum = 0;
  for (const std::size_t n : sizes) {
    if (n > nobodys - sum) return nobodys;
    sum += n;
  }
  return sum;
}

std::string in_words(std::size_t length, const Extents& sizes) {
  return "sizes that add up to " + std::to_string(sum_of(sizes)) + ", of a dimension of " +
         std::to_string(length);
}

// The share of place `i` of `n`.
Outcome<Runs> share_of(const Runs& runs, const Split& split, std::size_t n, std::size_t i) {
  Runs share = Runs::none();
  const std::size_t length = runs.length();
  if (split.zigzag) {
    if (length % (2 * n) != 0) {
      return no("a zigzag of " + std::to_string(2 * n) + " chunks, of a dimension of " +
                std::to_string(length));
    }
    for (const std::size_t c : {i, 2 * n - 1 - i}) {
      const Cut cut = chunk(length, 2 * n, c);
      runs.copy(cut.first, cut.last, share);
    }
    return share;
  }
  if (!split.sizes.empty()) {
    if (split.sizes.size() != n || sum_of(split.sizes) != length) {
      return no(std::to_string(split.sizes.size()) + " " + in_words(length, split.sizes) + " on " +
                std::to_string(n) + " ranks");
    }
    const auto at = split.sizes.begin() + static_cast<std::ptrdiff_t>(i);
    const std::size_t first = std::accumulate(split.sizes.begin(), at, std::size_t(0));
    runs.copy(first, first + *at, share);
    return share;
  }
  Extents groups = split.groups;
  for (std::size_t g = 0; groups.size() < split.stride && split.groups.empty(); ++g) {
    const Cut cut = chunk(length, split.stride, g);
    if (cut.first == cut.last) break;  // those behind it are empty, too
    groups.push_back(cut.last - cut.first);
  }
  if (sum_of(groups) != length) return no("groups of " + in_words(length, groups));
  std::size_t begin = 0;
  for (const std::size_t size : groups) {
    const Cut cut = chunk(size, n, i);
    runs.copy(begin + cut.first, begin + cut.last, share);
    begin += size;
  }
  return share;
}

// Blocks are what runs of all dimensions have in common.
Outcome<std::vector<NdBlock>> blocks_of(const std::vector<Runs>& dims) {
  std::vector<NdBlock> blocks{{}};
  for (const Runs& runs : dims) {
    std::vector<NdBlock> more;
    for (const NdBlock& block : blocks) {
      std::size_t local = 0;
      for (const Runs::Run& run : runs.all()) {
        if (run.first != nobodys) {
          if (more.size() == most_pieces) return no("more than a million pieces");
          more.push_back(block);
          more.back().global.push_back(run.first);
          more.back().local.push_back(local);
          more.back().size.push_back(run.size);
        }
        local += run.size;
      }
    }
    blocks = std::move(more);
  }
  return blocks;
}

std::string wrong_with(const Sharding& sharding, const Extents& whole, const Mesh& mesh) {
  std::set<std::size_t> taken;
  for (const Split& split : sharding) {
    if (split.axis >= mesh.axes.size()) return "an axis that the mesh does not have";
    const std::string& name = mesh.axes[split.axis].name;
    if (!taken.insert(split.axis).second) return "the axis '" + name + "' twice";
    if (split.kind != Split::Kind::shard) continue;
    if (split.dim >= whole.size()) {
      return "a shard of dimension " + std::to_string(split.dim) + " on '" + name +
             "', of a tensor of " + std::to_string(whole.size()) + " (counted from 0)";
    }
    const bool groups = split.stride != 1 || !split.groups.empty();
    if (int(groups) + int(!split.sizes.empty()) + int(split.zigzag) > 1 ||
        (split.stride != 1 && !split.groups.empty())) {
      return "more than one of stride, groups, sizes and zigzag on '" + name + "'";
    }
    if (split.stride < 1 || split.stride > most_chunks) return "no such stride on '" + name + "'";
  }
  return "";
}

// What a rank holds, dimension by dimension.
Outcome<std::vector<Runs>> runs_of(std::size_t rank, const Extents& whole, const Sharding& sharding,
                                   const Mesh& mesh) {
  if (const std::string wrong = wrong_with(sharding, whole, mesh); !wrong.empty()) return no(wrong);
  std::vector<Runs> dims;
  for (const std::size_t n : whole) dims.emplace_back(n);
  const std::vector<std::size_t> place = mesh.place_of(rank);
  for (const Split& split : sharding) {
    if (split.kind != Split::Kind::shard) continue;
    Runs& runs = dims[split.dim];
    if (split.padded != 0 && split.padded < runs.length()) {
      return no("a dimension of " + std::to_string(runs.length()) + " that is padded to " +
                std::to_string(split.padded));
    }
    if (split.padded != 0) runs.pad_to(split.padded);
    Outcome<Runs> share = share_of(runs, split, mesh.axes[split.axis].size, place[split.axis]);
    if (!share) return share.error();
    runs = *share;
  }
  return dims;
}

Extents shape_of(const std::vector<Runs>& dims) {
  Extents shape;
  for (const Runs& runs : dims) shape.push_back(runs.length());
  return shape;
}

}  // namespace

Outcome<Extents> shard_of(std::size_t rank, const Extents& whole, const Sharding& sharding,
                          const Mesh& mesh) {
  const auto dims = runs_of(rank, whole, sharding, mesh);
  if (!dims) return dims.error();
  return shape_of(*dims);
}

Outcome<NdPlacement> held_by(std::size_t rank, const Extents& shard, const Extents& whole,
                             const Sharding& sharding, const Mesh& mesh) {
  const auto dims = runs_of(rank, whole, sharding, mesh);
  if (!dims) return dims.error();
  if (shape_of(*dims) != shard) {
    return no("a shard of " + text_of_extents(shape_of(*dims)) + " of " + text_of_extents(whole) +
              ", and the file holds " + text_of_extents(shard));
  }
  Outcome<std::vector<NdBlock>> blocks = blocks_of(*dims);
  if (!blocks) return blocks.error();
  NdPlacement held{whole, shard, *blocks};
  const std::vector<std::size_t> place = mesh.place_of(rank);
  for (const Split& split : sharding) {
    if (split.kind != Split::Kind::partial) continue;
    const int n = static_cast<int>(mesh.axes[split.axis].size);
    held.part = held.part * n + static_cast<int>(place[split.axis]);
    held.parts *= n;
  }
  return held;
}

std::vector<std::size_t> owed_to(const std::vector<std::size_t>& holders, const Sharding& sharding,
                                 const Mesh& mesh, std::size_t ranks) {
  std::vector<bool> taken(mesh.axes.size(), false);
  for (const Split& split : sharding) taken[split.axis] = true;
  // The first rank that lies as this one does on the axes that no split takes.
  const auto first_beside = [&](std::size_t rank) {
    std::size_t first = 0, step = 1;
    for (std::size_t axis = taken.size(); axis-- > 0;) {
      const std::size_t size = mesh.axes[axis].size;
      if (!taken[axis]) first += rank % size * step;
      rank /= size;
      step *= size;
    }
    return first;
  };
  std::set<std::size_t> found;
  for (const std::size_t rank : holders) found.insert(first_beside(rank));
  std::vector<std::size_t> owed;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (found.contains(first_beside(rank))) owed.push_back(rank);
  }
  return owed;
}

}  // namespace plumb::trace
