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

namespace plumb {
namespace {

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

TEST(Placements, OfDTensorCutAsItDoes) {  // 10 rows on 4 ranks: 3, 3, 3, 1; on 8: 2 each of five
  const Mesh mesh{{{"tp", 4}}};
  const Sharding rows{{0, Split::Kind::shard, 0}};
  EXPECT_EQ(*shard_of(3, {10, 2}, rows, mesh), (Extents{1, 2}));
  EXPECT_EQ(*shard_of(7, {10, 2}, rows, {{{"tp", 8}}}), (Extents{0, 2}));
  // FSDP on top of TP: [_StridedShard(0, split_factor=2), Shard(0)] on (dp 2, tp 2), 8 rows; PyTorch's
  // documentation has rank 1 at rows 4-5 and rank 2 at rows 2-3.
  const Sharding strided{{0, Split::Kind::shard, 0, 2}, {1, Split::Kind::shard, 0}};
  const Mesh both{{{"dp", 2}, {"tp", 2}}};
  for (const auto& [rank, first] :
       {std::pair<std::size_t, std::size_t>{0, 0}, {1, 4}, {2, 2}, {3, 6}}) {
    const auto held = held_by(rank, {2}, {8}, strided, both);
    ASSERT_TRUE(held);
    ASSERT_EQ(held->blocks.size(), 1U);
    EXPECT_EQ(held->blocks[0].global, Extents{first}) << rank;
  }
}

TEST(Placements, OfAFusedProductAreInterleaved) {  // query 8, key 4, value 4 on two ranks
  const Mesh mesh{{{"tp", 2}}};
  const Sharding qkv{{0, Split::Kind::shard, 1, 1, {8, 4, 4}}};
  const auto held = held_by(1, {3, 8}, {3, 16}, qkv, mesh);
  ASSERT_TRUE(held);
  const auto flat = flattened(*held);
  ASSERT_TRUE(flat);
  ASSERT_EQ(flat->pieces.size(), 3U);
  EXPECT_EQ(flat->pieces[0], (Piece{{0, 4, 3, 4}, {0, 0, 3, 4}}));
  EXPECT_EQ(flat->pieces[1], (Piece{{0, 10, 3, 2}, {0, 4, 3, 2}}));
  EXPECT_EQ(flat->pieces[2], (Piece{{0, 14, 3, 2}, {0, 6, 3, 2}}));
}

TEST(Placements, ThatCannotBeAreRefusedInWords) {
  const Mesh mesh{{{"dp", 2}, {"tp", 4}}};
  const auto says = [&](const Sharding& sharding, const std::string& what) {
    const auto shape = shard_of(0, {8, 6}, sharding, mesh);
    ASSERT_FALSE(shape) << what;
    EXPECT_NE(shape.error().detail.find(what), std::string::npos) << shape.error().detail;
  };
  const auto shard = Split::Kind::shard;
  says({{2, shard, 0}}, "an axis that the mesh does not have");
  says({{0, shard, 0}, {0, shard, 1}}, "the axis 'dp' twice");
  says({{0, shard, 2}}, "a shard of dimension 2 on 'dp', of a tensor of 2");
  says({{1, shard, 1, 1, {}, {}, true}}, "a zigzag of 8 chunks, of a dimension of 6");
  says({{1, shard, 1, 1, {2, 3}}}, "groups of sizes that add up to 5, of a dimension of 6");
  says({{1, shard, 1, 1, {}, {2, 2, 2}}}, "3 sizes that add up to 6");
  says({{1, shard, 1, 2, {3, 3}}}, "more than one of stride, groups");
  says({{1, shard, 1, 5000}}, "no such stride");
  says({{1, shard, 1, 1, {}, {}, false, 5}}, "a dimension of 6 that is padded to 5");
  constexpr std::size_t half = std::size_t(1) << 63;
  says({{1, shard, 1, 1, {half, half, 6}}}, "groups of sizes");
}

TEST(Placements, SayWhoHoldsATensor) {
  const Mesh mesh{{{"pp", 2}, {"dp", 2}, {"tp", 2}}};
  const Sharding on_both{{1}, {2, Split::Kind::shard, 0}};
  EXPECT_EQ(owed_to({5}, on_both, mesh, 8), (std::vector<std::size_t>{4, 5, 6, 7}));
  EXPECT_EQ(owed_to({0}, {{2, Split::Kind::shard, 0}}, mesh, 8), (std::vector<std::size_t>{0, 1}));
}

// FP32 sums depend on the order of their terms.
TEST(Placements, OfASumNumberItsPartsAsRanksAreNumbered) {
  const Mesh mesh{{{"dp", 2}, {"tp", 3}}};
  const Sharding sum{{0, Split::Kind::partial}, {1, Split::Kind::partial}};
  for (std::size_t rank = 0; rank < 6; ++rank) {
    const auto held = held_by(rank, {4}, {4}, sum, mesh);
    ASSERT_TRUE(held);
    EXPECT_EQ(held->part, static_cast<int>(rank));
    EXPECT_EQ(held->parts, 6);
  }
}

TEST(Placements, AsATextOfDimensions) {
  const Mesh mesh{{{"dp", 2}, {"cp", 2}, {"tp", 2}}};
  const auto read = sharding_from_dims("b s[cp:zigzag,tp] 1 # dp:replicated", 3, mesh);
  ASSERT_TRUE(read) << read.error().detail;
  const Sharding expected{{1, Split::Kind::shard, 1, 1, {}, {}, true},
                          {2, Split::Kind::shard, 1},
                          {0, Split::Kind::replicate}};
  EXPECT_EQ(*read, expected);
  const auto sum = sharding_from_dims("t (heads*d)[tp:sharded] # cp:partial", 2, mesh);
  ASSERT_TRUE(sum);
  EXPECT_EQ((*sum)[1].kind, Split::Kind::partial);
  for (const auto& [text, why] :
       {std::pair<std::string, std::string>{"b s", "'b s' for a tensor of 3 dimensions"},
        {"b s[ep] h", "no axis 'ep' in the mesh (dp, cp, tp)"},
        {"b s[tp:zig] h", "'zig' of axis 'tp'; expected zigzag"},
        {"b s[tp h", "'s[tp', whose bracket"},
        {"b s[] h", "whose bracket is empty"},
        {"b s h # tp", "'tp' behind #"},
        {"b s h # tp:zigzag", "behind #"}}) {
    const auto wrong = sharding_from_dims(text, 3, mesh);
    ASSERT_FALSE(wrong) << text;
    EXPECT_NE(wrong.error().detail.find(why), std::string::npos) << wrong.error().detail;
  }
}

TEST(Blocks, OfFourDimensionsAreRunsOfRows) {  // (2, 3, 4, 5), of which dimension 2 has [1, 3)
  const NdPlacement p{{2, 3, 4, 5}, {2, 3, 2, 5}, {{{0, 0, 1, 0}, {0, 0, 0, 0}, {2, 3, 2, 5}}}};
  const auto flat = flattened(p);
  ASSERT_TRUE(flat);
  EXPECT_EQ(flat->rows, 24U);
  EXPECT_EQ(flat->cols, 5U);
  ASSERT_EQ(flat->pieces.size(), 6U);
  EXPECT_EQ(flat->pieces[4], (Piece{{17, 0, 2, 5}, {8, 0, 2, 5}}));
}

TEST(Blocks, OfOneOfSeveralTensorsThatLieFused) {  // columns a a b, again and again
  const NdPlacement all{{2, 9}, {2, 5}, {{{0, 4}, {0, 0}, {2, 5}}}};
  const auto a = part_of(all, {1, 3, 0, 2}), b = part_of(all, {1, 3, 2, 1});
  ASSERT_TRUE(a);
  ASSERT_EQ(a->blocks.size(), 2U);  // column 4 is the second a of the second group
  EXPECT_EQ(a->whole, (Extents{2, 6}));
  EXPECT_EQ(a->blocks[0].global, (Extents{0, 3}));
  EXPECT_EQ(a->blocks[0].size, (Extents{2, 1}));
  EXPECT_EQ(a->blocks[1].global, (Extents{0, 4}));
  EXPECT_EQ(a->blocks[1].local, (Extents{0, 2}));
  ASSERT_EQ(b->blocks.size(), 2U);
  EXPECT_EQ(b->blocks[1].global, (Extents{0, 2}));
  EXPECT_EQ(b->blocks[1].local, (Extents{0, 4}));
  EXPECT_FALSE(part_of(all, {1, 4, 0, 2}));
  EXPECT_FALSE(part_of(all, {2, 3, 0, 2}));
  EXPECT_FALSE(part_of({{2, 9}, {2, 5}, {{{0}, {0}, {2}}}}, {1, 3, 0, 2}));
}

TEST(Blocks, OutsideAreRefusedWithoutWrappingAround) {
  constexpr std::size_t huge = ~std::size_t(0);
  for (const NdBlock& block : {NdBlock{{huge}, {0}, {2}}, NdBlock{{0}, {huge}, {2}},
                               NdBlock{{3}, {0}, {2}}, NdBlock{{0, 0}, {0, 0}, {1, 1}}}) {
    EXPECT_FALSE(flattened({{4}, {2}, {block}}));
  }
}

}  // namespace
}  // namespace plumb
