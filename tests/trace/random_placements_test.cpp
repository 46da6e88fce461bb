// Is what ranks hold, by whichever placement on whichever mesh, put together again bit by bit, and is a
// wrong placement noticed? Shards are made here from the values, as torch.chunk and torch.cat make them,
// and not from blocks.
#include "trace/placements/sharding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/rooms.hpp"
#include "trace/check.hpp"
#include "trace/merge.hpp"
#include "trace/placements/dims.hpp"

namespace plumb::random_placements_test {
namespace {

using trace::Sharding;

struct Array {
  Extents shape;
  std::vector<float> values;
};

std::size_t count_of(const Extents& shape) {
  std::size_t n = 1;
  for (const std::size_t d : shape) n *= d;
  return n;
}

// Indices [first, last) of a dimension.
Array narrowed(const Array& x, std::size_t dim, std::size_t first, std::size_t last) {
  Array part{x.shape, {}};
  part.shape[dim] = last - first;
  std::size_t inner = 1;
  for (std::size_t d = dim + 1; d < x.shape.size(); ++d) inner *= x.shape[d];
  for (std::size_t e = 0; e < x.values.size(); ++e) {
    const std::size_t at = e / inner % x.shape[dim];
    if (at >= first && at < last) part.values.push_back(x.values[e]);
  }
  return part;
}

Array joined(const std::vector<Array>& parts, std::size_t dim) {
  Array all{parts.front().shape, {}};
  all.shape[dim] = 0;
  for (const Array& part : parts) all.shape[dim] += part.shape[dim];
  std::size_t outer = 1;
  for (std::size_t d = 0; d < dim; ++d) outer *= all.shape[d];
  for (std::size_t o = 0; o < outer; ++o) {
    for (const Array& part : parts) {
      const auto n = static_cast<std::ptrdiff_t>(part.values.size() / outer);
      const auto from = part.values.begin() + n * static_cast<std::ptrdiff_t>(o);
      all.values.insert(all.values.end(), from, from + n);
    }
  }
  return all;
}

// torch.chunk: as many as are full, and one that is short; the rest is empty.
Array chunk(const Array& x, std::size_t dim, std::size_t n, std::size_t i) {
  const std::size_t length = x.shape[dim], each = std::max<std::size_t>((length + n - 1) / n, 1);
  return narrowed(x, dim, std::min(length, i * each), std::min(length, (i + 1) * each));
}

Array share(Array x, const Split& split, std::size_t n, std::size_t i) {
  const std::size_t dim = split.dim;
  if (split.padded > x.shape[dim]) {
    Array padding{x.shape, {}};
    padding.shape[dim] = split.padded - x.shape[dim];
    padding.values.assign(count_of(padding.shape), 1e30F);
    x = joined({x, padding}, dim);
  }
  if (split.zigzag)
    return joined({chunk(x, dim, 2 * n, i), chunk(x, dim, 2 * n, 2 * n - 1 - i)}, dim);
  std::vector<Array> mine;
  std::size_t first = 0;
  if (!split.sizes.empty()) {
    for (std::size_t k = 0; k < i; ++k) first += split.sizes[k];
    return narrowed(x, dim, first, first + split.sizes[i]);
  }
  for (const std::size_t size : split.groups) {
    mine.push_back(chunk(narrowed(x, dim, first, first + size), dim, n, i));
    first += size;
  }
  for (std::size_t g = 0; g < split.stride && split.groups.empty(); ++g) {
    mine.push_back(chunk(chunk(x, dim, split.stride, g), dim, n, i));
  }
  return joined(mine, dim);
}

using Random = std::mt19937;
std::size_t below(std::size_t n, Random& random) { return n == 0 ? 0 : random() % n; }

// Sizes that add up to `total`.
Extents dealt(std::size_t total, std::size_t n, Random& random) {
  Extents sizes(n, 0);
  for (std::size_t e = 0; e < total; ++e) ++sizes[below(n, random)];
  return sizes;
}

struct Case {
  Mesh mesh;
  Extents shape;
  Sharding sharding;
  std::vector<std::size_t> holders;
  std::size_t ranks = 1;
};

Split random_split(std::size_t axis, std::size_t n, Extents& local, Random& random) {
  Split split{axis};
  const std::size_t kind = below(10, random);
  if (local.empty() || kind >= 8) {
    split.kind = kind == 9 ? Split::Kind::partial : Split::Kind::replicate;
    return split;
  }
  split.kind = Split::Kind::shard;
  split.dim = below(local.size(), random);
  std::size_t& length = local[split.dim];
  switch (below(7, random)) {
    case 0:
      split.stride = 2 + below(3, random);
      break;
    case 1:
      split.groups = dealt(length, 1 + below(4, random), random);
      break;
    case 2:
      split.sizes = dealt(length, n, random);
      break;
    case 3:
      split.zigzag = length % (2 * n) == 0;
      break;
    case 4:
      split.padded = length + below(5, random);
      break;
    default:
      break;
  }
  return split;
}

// What a rank has, and which summand it is.
struct Held {
  Array array;
  std::size_t part = 0;
};

class Made {
 public:
  explicit Made(unsigned seed) : random_(seed) {
    Case c;
    for (std::size_t a = 0, axes = 1 + below(4, random_); a < axes; ++a) {
      const std::size_t size = 1 + below(4, random_);
      if (c.ranks * size > 32) continue;
      c.mesh.axes.push_back({"axis" + std::to_string(a), size});
      c.ranks *= size;
    }
    for (std::size_t d = 0, dims = below(5, random_); d < dims; ++d) {
      c.shape.push_back(1 + below(9, random_));
    }
    case_ = std::move(c);
    choose_splits();
    fill();
  }

  const Case& made() const { return case_; }
  const Tensor& whole() const { return whole_; }
  const Array& held(std::size_t rank) const { return held_[rank].array; }

  // The trace that results where ranks say this of what they hold; or what they are told.
  Outcome<Trace> trace(const Sharding& said) const {
    Trace trace;
    trace.manifest.world_size = static_cast<int>(case_.ranks);
    trace.ranks.resize(case_.ranks);
    for (const std::size_t rank : case_.holders) {
      const Array& has = held(rank);
      const auto nd = held_by(rank, has.shape, case_.shape, said, case_.mesh);
      if (!nd) return nd.error();
      const auto lies = flattened(*nd);
      if (!lies) return lies.error();
      const auto [rows, cols] = as_matrix(has.shape);
      Tensor values(rows, cols);
      std::ranges::copy(has.values, values.values.begin());
      trace.ranks[rank].shards["x"] = {*lies, std::move(values), fp32};
    }
    return trace;
  }

  Random& random() { return random_; }

 private:
  void choose_splits() {
    std::vector<std::size_t> axes(case_.mesh.axes.size());
    std::iota(axes.begin(), axes.end(), 0);
    std::ranges::shuffle(axes, random_);
    if (axes.size() > 1 && below(3, random_) == 0) axes.pop_back();  // lives on a part of it only
    Extents local = case_.shape;
    for (const std::size_t axis : axes) {
      const std::size_t n = case_.mesh.axes[axis].size;
      case_.sharding.push_back(random_split(axis, n, local, random_));
      const Split& split = case_.sharding.back();
      // Each place has another length from here on where shares are uneven: then no more is split.
      if (split.kind != Split::Kind::shard) continue;
      Array x{local, std::vector<float>(count_of(local))};
      const Extents first = share(x, split, n, 0).shape;
      bool even = true;
      for (std::size_t i = 1; i < n; ++i) even = even && share(x, split, n, i).shape == first;
      if (!even) break;
      local = first;
    }
    const std::size_t somewhere = below(case_.ranks, random_);
    case_.holders = owed_to({somewhere}, case_.sharding, case_.mesh, case_.ranks);
  }

  void fill() {
    std::normal_distribution<float> normal;
    Array x{case_.shape, std::vector<float>(count_of(case_.shape))};
    for (float& v : x.values) v = normal(random_);
    std::size_t parts = 1;
    for (const Split& split : case_.sharding) {
      parts *= split.kind == Split::Kind::partial ? case_.mesh.axes[split.axis].size : 1;
    }
    std::vector<Array> summands(parts, x);
    if (parts > 1) {  // small whole numbers, so that their sum is exact
      for (Array& s : summands) {
        for (float& v : s.values) v = static_cast<float>(below(1000, random_)) + 1;
      }
      for (std::size_t e = 0; e < x.values.size(); ++e) {
        x.values[e] = 0;
        for (const Array& s : summands) x.values[e] += s.values[e];
      }
    }
    const auto [rows, cols] = as_matrix(case_.shape);
    whole_ = Tensor(rows, cols);
    std::ranges::copy(x.values, whole_.values.begin());
    held_.resize(case_.ranks);
    for (const std::size_t rank : case_.holders) {
      const std::vector<std::size_t> place = case_.mesh.place_of(rank);
      std::size_t part = 0;
      for (const Split& split : case_.sharding) {
        if (split.kind != Split::Kind::partial) continue;
        part = part * case_.mesh.axes[split.axis].size + place[split.axis];
      }
      Array mine = summands[part];
      for (const Split& split : case_.sharding) {
        if (split.kind != Split::Kind::shard) continue;
        mine = share(mine, split, case_.mesh.axes[split.axis].size, place[split.axis]);
      }
      held_[rank] = {std::move(mine), part};
    }
  }

  Random random_;
  Case case_;
  Tensor whole_;
  std::vector<Held> held_;
};

TEST(Placements, OfAThousandMeshesMergeToTheWholeBitByBit) {
  std::size_t sharded = 0, partial = 0, pieces = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const Made made(seed);
    const Outcome<Trace> trace = made.trace(made.made().sharding);
    ASSERT_TRUE(trace) << seed << ": " << trace.error().detail;
    const Merged merged = merge(*trace);
    ASSERT_TRUE(merged.findings.empty()) << seed << ": " << merged.findings.front().detail;
    ASSERT_EQ(*merged.values.at("x"), made.whole()) << seed;
    const Placement& first = trace->ranks[made.made().holders.front()].shards.at("x").placement;
    pieces += first.pieces.size() > 1 ? 1 : 0;
    for (const Split& split : made.made().sharding) {
      sharded += split.kind == Split::Kind::shard ? 1 : 0;
      partial += split.kind == Split::Kind::partial ? 1 : 0;
    }
  }
  EXPECT_GT(sharded, 800U);  // that the draw is not trivial
  EXPECT_GT(partial, 100U);
  EXPECT_GT(pieces, 150U);
}

// Another placement on the same mesh.
Sharding mistaken(const Case& c, Random& random) {
  Sharding wrong = c.sharding;
  Split& split = wrong[below(wrong.size(), random)];
  switch (below(6, random)) {
    case 0:
      split.dim = below(c.shape.size() + 1, random);
      break;
    case 1:
      split.kind = static_cast<Split::Kind>(below(3, random));
      break;
    case 2:
      split = {split.axis, split.kind, split.dim};  // stride, groups, zigzag forgotten
      break;
    case 3:
      split = {split.axis, Split::Kind::shard, split.dim, 2};
      break;
    case 4:
      std::ranges::shuffle(wrong, random);
      break;
    default:
      split.axis = below(c.mesh.axes.size(), random);
  }
  return wrong;
}

bool says_the_same(const Outcome<Trace>& a, const Outcome<Trace>& b) {
  if (!a || !b) return false;
  for (std::size_t rank = 0; rank < a->ranks.size(); ++rank) {
    for (const auto& [id, shard] : a->ranks[rank].shards) {
      if (!(shard.placement == b->ranks[rank].shards.at(id).placement)) return false;
    }
  }
  return true;
}

// A permutation (chunks in another order) is a whole tensor, too: only the reference can tell.
TEST(Placements, ThatAreWrongAreRefusedOrFoundByMergingOrDifferFromTheReference) {
  std::size_t refused = 0, found = 0, differ = 0, seed = 10000;
  while (refused + found + differ < 400) {
    Made made(static_cast<unsigned>(seed++));
    if (made.whole().size() < 2) continue;
    const Outcome<Trace> right = made.trace(made.made().sharding);
    const Sharding wrong = mistaken(made.made(), made.random());
    const Outcome<Trace> trace = made.trace(wrong);
    if (says_the_same(right, trace)) continue;  // not wrong after all
    if (!trace) {
      EXPECT_FALSE(trace.error().detail.empty());
      ++refused;
      continue;
    }
    Trace reference;
    reference.ranks.resize(1);
    reference.ranks[0].shards["x"] = {trace::whole(made.whole().rows, made.whole().cols),
                                      made.whole(), fp32};
    if (!merge(*trace).findings.empty()) {
      ++found;
      continue;
    }
    CheckOptions options;
    options.rules = {"assert-close"};
    ASSERT_EQ(check(reference, *trace, options).exit_code(), 1) << seed - 1;
    ++differ;
  }
  EXPECT_GT(refused, 100U);
  EXPECT_GT(found, 5U);
  EXPECT_GT(differ, 10U);
}

}  // namespace
}  // namespace plumb::random_placements_test
