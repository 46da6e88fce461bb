#include "model/rank/shares.hpp"

#include "model/joints/layout.hpp"
#include "model/spec/ownership.hpp"

namespace plumb::model {
namespace {

// Appends a row, or makes the last piece taller.
void add_row(const Block& global, const Block& local, std::vector<Piece>& pieces) {
  if (!pieces.empty()) {
    Piece& last = pieces.back();
    if (last.global.col == global.col && last.global.cols == global.cols) {
      ++last.global.rows;
      ++last.local.rows;
      return;
    }
  }
  pieces.push_back({global, local});
}

}  // namespace

Slice share_of(const RankContext& rank, const Parameter& p, std::size_t n) {
  const Communicator& sharers = rank.sharers_of(p.name);
  return rank.joints.zero.share(rank.where, n, slice(n, sharers.size(), sharers.rank()));
}

LocalShape local_shape(const RankContext& rank, const Parameter& p) {
  const auto n = static_cast<std::size_t>(rank.where.tp_size);
  const auto rows = static_cast<std::size_t>(p.rows), cols = static_cast<std::size_t>(p.cols);
  const Sharding sharding = held_as(rank.l, p);
  return {sharding == Sharding::rows ? rows / n : rows,
          sharding == Sharding::columns ? cols / n : cols};
}

Tensor own_share(const RankContext& rank, const Tensor& slice, const Parameter& p) {
  const Slice mine = share_of(rank, p, slice.size());
  Tensor share(mine.last - mine.first, 1);
  std::copy_n(slice.values.begin() + static_cast<std::ptrdiff_t>(mine.first),
              mine.last - mine.first, share.values.begin());
  return share;
}

Tensor padded(const RankContext& rank, const Tensor& share, const Parameter& p) {
  const LocalShape shape = local_shape(rank, p);
  const auto sharers = static_cast<std::size_t>(rank.sharers_of(p.name).size());
  Tensor all = share;
  all.rows = (shape.rows * shape.cols + sharers - 1) / sharers;
  all.values.resize(all.rows, 0);
  return all;
}

Tensor without_padding(const RankContext& rank, const Tensor& all, const Parameter& p) {
  const LocalShape shape = local_shape(rank, p);
  Tensor whole(shape.rows, shape.cols);
  const int sharers = rank.sharers_of(p.name).size();
  const std::size_t room = all.size() / static_cast<std::size_t>(sharers);
  for (int r = 0; r < sharers; ++r) {
    const auto [first, last] = slice(whole.size(), sharers, r);
    const std::size_t begin =
        rank.joints.padding.begins(rank.at(p.name), first, static_cast<std::size_t>(r) * room);
    // A wrong place reads what is there, and nothing beyond the end.
    const std::size_t from = std::min(begin, all.size() - (last - first));
    std::copy_n(all.values.begin() + static_cast<std::ptrdiff_t>(from), last - first,
                whole.values.begin() + static_cast<std::ptrdiff_t>(first));
  }
  return whole;
}

Tensor gathered(const RankContext& rank, const Tensor& share, const Parameter& p) {
  if (rank.l.padded) {
    return without_padding(rank, rank.sharers_of(p.name).gather_rows(padded(rank, share, p)), p);
  }
  const LocalShape shape = local_shape(rank, p);
  Tensor slice = rank.sharers_of(p.name).gather_rows(share);
  slice.rows = shape.rows;
  slice.cols = shape.cols;
  slice.values.resize(shape.rows * shape.cols, 0);  // a wrong share leaves holes, not reads beyond
  return slice;
}

Shard shard_of(const RankContext& rank, const Tensor& share, const Parameter& p,
               const Placement& slice, const Format& format) {
  const LocalShape shape = local_shape(rank, p);
  const Slice mine = share_of(rank, p, shape.rows * shape.cols);
  Shard shard{{slice.rows, slice.cols, {}}, Tensor(), format};
  if (mine.first == mine.last) return shard;
  const Block& base = slice.pieces.front().global;
  const std::size_t top = mine.first / shape.cols;
  shard.values = Tensor((mine.last - 1) / shape.cols - top + 1, shape.cols);
  std::copy(share.values.begin(), share.values.end(),
            shard.values.values.begin() + static_cast<std::ptrdiff_t>(mine.first % shape.cols));
  for (std::size_t r = 0; r < shard.values.rows; ++r) {
    const std::size_t start = (top + r) * shape.cols;
    const std::size_t from = std::max(mine.first, start) - start;
    const std::size_t to = std::min(mine.last, start + shape.cols) - start;
    add_row({base.row + top + r, base.col + from, 1, to - from}, {r, from, 1, to - from},
            shard.placement.pieces);
  }
  return shard;
}

}  // namespace plumb::model
