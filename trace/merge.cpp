#include "trace/merge.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

namespace plumb::trace {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

struct Piecewise {
  std::size_t rank;
  const Shard* shard;
};

bool inside(const Block& b, std::size_t rows, std::size_t cols) {
  return b.row <= rows && b.rows <= rows - b.row && b.col <= cols && b.cols <= cols - b.col;
}

class Assembly {
 public:
  Assembly(const std::string& id, const std::vector<Piecewise>& shards, std::size_t ranks,
           Merged& out)
      : id_(id), shards_(shards), ranks_(ranks), out_(out) {}

  void run() {
    const Placement& first = shards_.front().shard->placement;
    if (!shapes_fit(first) || !enough(first)) return;
    auto whole = std::make_shared<Tensor>(first.rows, first.cols, to_be_written);
    if (first.parts > 1) {
      std::ranges::fill(whole->values, 0.0F);
      add_parts(*whole, first.parts);
    } else {
      place_all(*whole);
    }
    check_finite(*whole);
    out_.formats.emplace(id_, shards_.front().shard->format);
    out_.values.emplace(id_, std::move(whole));
  }

 private:
  void found(std::string detail) {
    out_.findings.push_back({id_, "structure", infinite, std::move(detail)});
  }

  bool shapes_fit(const Placement& first) {
    for (const auto& [rank, shard] : shards_) {
      const Placement& p = shard->placement;
      if (p.rows != first.rows || p.cols != first.cols || p.parts != first.parts) {
        found("rank " + std::to_string(rank) + " says the whole is " + size_of(p.rows, p.cols) +
              ", rank " + std::to_string(shards_.front().rank) + " says " +
              size_of(first.rows, first.cols));
        return false;
      }
      if (!(shard->format == shards_.front().shard->format)) {
        found("rank " + std::to_string(rank) + " holds " + std::string(shard->format.name) +
              " where rank " + std::to_string(shards_.front().rank) + " holds " +
              std::string(shards_.front().shard->format.name));
      }
      for (const Piece& piece : p.pieces) {
        if (!inside(piece.global, p.rows, p.cols) ||
            !inside(piece.local, shard->values.rows, shard->values.cols) ||
            piece.global.rows != piece.local.rows || piece.global.cols != piece.local.cols) {
          found("a piece of rank " + std::to_string(rank) +
                " lies outside the tensor or its shard");
          return false;
        }
      }
    }
    return true;
  }

  // A rank that has all of it owns all of it, and nothing is noted element by element.
  void place_all(Tensor& whole) {
    const auto& [rank, shard] = shards_.front();
    const std::vector<Piece>& pieces = shard->placement.pieces;
    const Block all{0, 0, whole.rows, whole.cols};
    sole_owner_ =
        pieces.size() == 1 && pieces[0].global == all && shard->values.size() == whole.size()
            ? rank + 1
            : 0;
    if (sole_owner_ != 0) {
      whole = shard->values;
    } else {
      owner_.assign(whole.size(), 0);
    }
    for (std::size_t i = sole_owner_ != 0 ? 1 : 0; i < shards_.size(); ++i)
      place(whole, shards_[i]);
    if (sole_owner_ == 0) check_cover(whole);
  }

  std::size_t owner(std::size_t e) const { return sole_owner_ != 0 ? sole_owner_ : owner_[e]; }

  void place(Tensor& whole, const Piecewise& p) {
    bool told = false;
    for (const Piece& piece : p.shard->placement.pieces) {
      for (std::size_t i = 0; i < piece.global.rows; ++i) {
        const std::size_t first = (piece.global.row + i) * whole.cols + piece.global.col;
        const float* row = p.shard->values.row(piece.local.row + i) + piece.local.col;
        if (!place_row(whole, first, row, piece.global.cols, p.rank) && !told) {
          told = true;
          tell_disagreement(whole, first, row, p.rank);
        }
      }
    }
  }

  // Writes elements that nobody has written; returns false if somebody has written something else.
  bool place_row(Tensor& whole, std::size_t first, const float* row, std::size_t n,
                 std::size_t rank) {
    float* to = whole.values.data() + first;
    if (sole_owner_ != 0) return std::memcmp(to, row, n * sizeof(float)) == 0;
    std::uint16_t* owner = &owner_[first];
    std::size_t owned = 0;
    for (std::size_t j = 0; j < n; ++j) owned += owner[j] != 0 ? 1 : 0;
    if (owned == n && n > 0) return std::memcmp(to, row, n * sizeof(float)) == 0;
    if (owned == 0) {
      std::fill(owner, owner + n, static_cast<std::uint16_t>(rank + 1));
      std::copy(row, row + n, to);
      return true;
    }
    bool agree = true;
    for (std::size_t j = 0; j < n; ++j) {
      if (owner[j] != 0) {
        agree =
            agree && std::bit_cast<std::uint32_t>(to[j]) == std::bit_cast<std::uint32_t>(row[j]);
        continue;
      }
      owner[j] = static_cast<std::uint16_t>(rank + 1);
      to[j] = row[j];
    }
    return agree;
  }

  void tell_disagreement(const Tensor& whole, std::size_t first, const float* row,
                         std::size_t rank) {
    std::size_t j = 0;
    while (std::bit_cast<std::uint32_t>(whole.values[first + j]) ==
           std::bit_cast<std::uint32_t>(row[j])) {
      ++j;
    }
    found("replicas disagree: ranks " + std::to_string(owner(first + j) - 1) + " and " +
          std::to_string(rank) + " hold " + std::to_string(whole.values[first + j]) + " and " +
          std::to_string(row[j]) + " at (" + std::to_string((first + j) / whole.cols) + ", " +
          std::to_string((first + j) % whole.cols) + ")");
  }

  // A file may claim any size. Room is made only for a whole that all ranks could hold together if
  // each held as much as the one with the largest shard.
  bool enough(const Placement& first) {
    std::size_t largest = 0;
    for (const auto& [rank, shard] : shards_) largest = std::max(largest, shard->values.size());
    const double most = static_cast<double>(largest) * static_cast<double>(ranks_);
    if (static_cast<double>(first.rows) * static_cast<double>(first.cols) <= most) return true;
    found("the whole is said to be " + size_of(first.rows, first.cols) + ", more than " +
          std::to_string(ranks_) + (ranks_ == 1 ? " rank" : " ranks") + " with at most " +
          std::to_string(largest) + " elements can hold");
    return false;
  }

  // A sum's parts: each is put together as a whole tensor is, so that its replicas agree and
  // nothing of it is missing; then they are added, in the order of the parts.
  void add_parts(Tensor& whole, int parts) {
    std::map<int, std::vector<Piecewise>> by_part;
    for (const Piecewise& p : shards_) by_part[p.shard->placement.part].push_back(p);
    for (const auto& [part, shards] : by_part) {
      Assembly of_part(id_, shards, ranks_, out_);
      Tensor summand(whole.rows, whole.cols, to_be_written);
      of_part.place_all(summand);
      for (std::size_t e = 0; e < whole.size(); ++e) whole.values[e] += summand.values[e];
    }
    if (static_cast<int>(by_part.size()) != parts) {
      found(std::to_string(by_part.size()) + " of " + std::to_string(parts) +
            " parts of the sum are there");
    }
  }

  // Sets elements that nobody holds to zero.
  void check_cover(Tensor& whole) {
    if (std::ranges::count(owner_, 0) == 0) return;
    bool told = false;
    for (std::size_t e = 0; e < owner_.size(); ++e) {
      if (owner_[e] != 0) continue;
      whole.values[e] = 0;
      if (std::exchange(told, true)) continue;
      found("no rank holds element (" + std::to_string(e / whole.cols) + ", " +
            std::to_string(e % whole.cols) + ")");
    }
  }

  void check_finite(const Tensor& whole) {
    std::uint32_t largest = 0;  // magnitudes are ordered as their bits are
    for (const float x : whole.values) {
      largest = std::max(largest, std::bit_cast<std::uint32_t>(x) & 0x7fffffffU);
    }
    if (largest < 0x7f800000U) return;
    for (std::size_t e = 0; e < whole.size(); ++e) {
      if (std::isfinite(whole.values[e])) continue;
      out_.not_finite.push_back({id_, "structure", infinite,
                                 "element (" + std::to_string(e / whole.cols) + ", " +
                                     std::to_string(e % whole.cols) + ") is not finite"});
      return;
    }
  }

  const std::string& id_;
  const std::vector<Piecewise>& shards_;
  std::size_t ranks_;  // of the run
  Merged& out_;
  std::size_t sole_owner_ = 0;        // 1 + the rank that has all of it; 0: nobody has
  std::vector<std::uint16_t> owner_;  // per element: 1 + the rank that wrote it; 0: nobody yet
};

}  // namespace

std::string why_not_whole(const Merged& merged, const std::string& id) {
  const auto found = std::ranges::find(merged.findings, id, &Finding::id);
  return found == merged.findings.end() ? "" : " (" + found->detail + ")";
}

std::string without_recompute(const std::string& id) {
  constexpr std::string_view mark = "@recompute";
  return id.ends_with(mark) ? id.substr(0, id.size() - mark.size()) : id;
}

Merged merge(const Trace& trace) {
  std::map<std::string, std::vector<Piecewise>> by_id;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    for (const auto& [id, shard] : trace.ranks[r].shards) {
      by_id[without_recompute(id)].push_back({r, &shard});
    }
  }
  Merged merged;
  for (const auto& [id, shards] : by_id) Assembly(id, shards, trace.ranks.size(), merged).run();
  merged.findings.insert(merged.findings.end(), trace.unfit.begin(), trace.unfit.end());
  return merged;
}

}  // namespace plumb::trace
