#include "trace/joint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <tuple>

#include "number/rounding.hpp"
#include "number/words.hpp"

namespace plumb::trace {
namespace {

constexpr std::size_t most_told = std::size_t(1) << 25;  // pieces, each counted in every band

bool inside(const Block& b, std::size_t rows, std::size_t cols) {
  return b.row <= rows && b.rows <= rows - b.row && b.col <= cols && b.cols <= cols - b.col;
}

void in_order(std::vector<std::size_t>& cuts) {
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());  // clang 14 has no ranges::unique
}

bool is_bare(Stored stored) {
  return stored == Stored::f32 || stored == Stored::bf16 || stored == Stored::f16;
}

Lying lying(const Shard& shard, std::size_t first, std::size_t n) {
  if (shard.in_file) {
    const Mapped& numbers = shard.in_file->numbers;
    return {numbers.bytes(first), numbers.stored, n};
  }
  return {reinterpret_cast<const char*>(shard.values.values.data() + first), Stored::f32, n};
}

// A NaN of a short format is one NaN, whatever its bits are beside the sign.
void settle(const Shard& shard, std::vector<float>& numbers, const float*& at) {
  if (!shard.in_file || shard.in_file->numbers.stored == Stored::f32) return;
  for (float& x : numbers) {
    if (std::isnan(x)) x = std::copysign(std::numeric_limits<float>::quiet_NaN(), x);
  }
  at = numbers.data();
}

// Have both shards the same bytes there, where bytes of both have one meaning?
bool same_bytes(const Shard& a, std::size_t of_a, const Shard& b, std::size_t of_b, std::size_t n) {
  const Lying x = lying(a, of_a, n), y = lying(b, of_b, n);
  return x.stored == y.stored && std::memcmp(x.bytes, y.bytes, n * width_of(x.stored)) == 0;
}

}  // namespace

void Cover::add(std::size_t number, const Shard& shard) {
  numbers_.push_back(number);
  bare_ = bare_ && (!shard.in_file || is_bare(shard.in_file->numbers.stored));
  const std::vector<Piece>& pieces = shard.placement.pieces;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    if (pieces[p].global.rows == 0 || pieces[p].global.cols == 0) continue;
    told_.push_back({&shard, number, p, pieces[p]});
  }
}

bool Cover::arrange() {
  if (rows_ == 0 || cols_ == 0) return true;
  std::vector<std::size_t> cuts{0, rows_};
  for (const Told& t : told_) {
    cuts.push_back(t.lies.global.row);
    cuts.push_back(t.lies.global.row + t.lies.global.rows);
  }
  in_order(cuts);
  const auto band_of = [&](std::size_t row) {
    return static_cast<std::size_t>(std::ranges::lower_bound(cuts, row) - cuts.begin());
  };
  std::size_t all = 0;
  for (const Told& t : told_) {
    all += band_of(t.lies.global.row + t.lies.global.rows) - band_of(t.lies.global.row);
    if (all > most_told) return false;
  }
  std::vector<std::vector<const Told*>> by_band(cuts.size() - 1);
  for (const Told& t : told_) {
    const std::size_t end = band_of(t.lies.global.row + t.lies.global.rows);
    for (std::size_t b = band_of(t.lies.global.row); b < end; ++b) by_band[b].push_back(&t);
  }
  for (std::size_t b = 0; b < by_band.size(); ++b) {
    arrange_band(cuts[b], cuts[b + 1], by_band[b]);
    if (holders_.size() > most_told) return false;
  }
  told_ = {};
  return true;
}

void Cover::note_hole(std::size_t row, std::size_t col) {
  if (!hole_) hole_ = row * cols_ + col;
}

void Cover::arrange_band(std::size_t row, std::size_t end, std::vector<const Told*>& told) {
  std::vector<std::size_t> cuts{0, cols_};
  for (const Told* t : told) {
    cuts.push_back(t->lies.global.col);
    cuts.push_back(t->lies.global.col + t->lies.global.cols);
  }
  in_order(cuts);
  std::ranges::stable_sort(told, {}, [](const Told* t) { return t->lies.global.col; });
  const auto earlier = [](const Told* a, const Told* b) {
    return std::tie(a->number, a->piece) < std::tie(b->number, b->piece);
  };
  Band band{row, end, segments_.size(), 0, false};
  std::vector<const Told*> here;
  std::size_t next = 0;
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    const std::size_t col = cuts[c];
    std::erase_if(here,
                  [&](const Told* t) { return t->lies.global.col + t->lies.global.cols <= col; });
    for (; next < told.size() && told[next]->lies.global.col <= col; ++next) {
      here.insert(std::ranges::upper_bound(here, told[next], earlier), told[next]);
    }
    if (here.empty()) {
      note_hole(row, col);
      continue;
    }
    segments_.push_back({col, cuts[c + 1], holders_.size(), here.size()});
    for (const Told* t : here) {
      const Piece& p = t->lies;
      const std::size_t local_row = p.local.row + (row - p.global.row);
      const std::size_t local_col = p.local.col + (col - p.global.col);
      holders_.push_back({t->shard, t->number, t->piece, local_row * t->shard->cols() + local_col});
    }
    if (holders_.size() > most_told) break;
  }
  band.segments = segments_.size() - band.first_segment;
  band.in_a_row = is_in_a_row(band);
  bands_.push_back(band);
}

bool Cover::is_in_a_row(const Band& band) const {
  if (band.segments != 1) return false;
  const Segment& only = segments_[band.first_segment];
  const auto holders = std::span(holders_).subspan(only.first_holder, only.holders);
  return only.col == 0 && only.end == cols_ &&
         std::ranges::all_of(holders, [&](const Holder& h) { return h.shard->cols() == cols_; });
}

// Calls f(segment, place in the stretch, elements, place in the segment's holders, as an offset for
// each holder's shard) for runs of elements that lie one behind the other in the whole and in the
// shard of each holder.
template <class F>
void Cover::by_segments(std::size_t first, std::size_t n, const F& f) const {
  if (n == 0) return;
  std::size_t row = first / cols_, col = first % cols_, done = 0;
  auto band = std::ranges::upper_bound(bands_, row, {}, &Band::row) - 1;
  while (done < n) {
    if (row == band->end) ++band;
    if (band->in_a_row) {
      const std::size_t count = std::min((band->end - row) * cols_ - col, n - done);
      f(segments_[band->first_segment], row - band->row, col, done, count);
      done += count;
      col = 0;
      row = band->end;
      continue;
    }
    const std::size_t of_row = std::min(cols_ - col, n - done);
    for (std::size_t s = 0; s < band->segments; ++s) {
      const Segment& segment = segments_[band->first_segment + s];
      const std::size_t from = std::max(segment.col, col), to = std::min(segment.end, col + of_row);
      if (from < to)
        f(segment, row - band->row, from - segment.col, done + (from - col), to - from);
    }
    done += of_row;
    col = 0;
    ++row;
  }
}

const float* Cover::at(std::size_t first, std::size_t n, float* room) const {
  if (n == 0) return room;
  // One shard may hold all of it in a row.
  const std::size_t row = first / cols_;
  const Band& band = *(std::ranges::upper_bound(bands_, row, {}, &Band::row) - 1);
  if (band.in_a_row && first + n <= band.end * cols_) {
    const Holder& h = holders_[segments_[band.first_segment].first_holder];
    return h.shard->at(h.place + (first - band.row * cols_), n, room);
  }
  if (hole_) std::fill(room, room + n, 0.0F);
  by_segments(
      first, n,
      [&](const Segment& s, std::size_t down, std::size_t skip, std::size_t to, std::size_t count) {
        const Holder& h = holders_[s.first_holder];
        float* into = room + to;
        const float* from = h.shard->at(h.place + down * h.shard->cols() + skip, count, into);
        if (from != into) std::copy(from, from + count, into);
      });
  return room;
}

void Cover::lie(std::size_t first, std::size_t n, std::vector<Lying>& runs) const {
  by_segments(
      first, n,
      [&](const Segment& s, std::size_t down, std::size_t skip, std::size_t, std::size_t count) {
        const Holder& h = holders_[s.first_holder];
        const Lying run = lying(*h.shard, h.place + down * h.shard->cols() + skip, count);
        const bool next = !runs.empty() && runs.back().stored == run.stored &&
                          runs.back().bytes + runs.back().n * width_of(run.stored) == run.bytes;
        if (next) {
          runs.back().n += count;
        } else {
          runs.push_back(run);
        }
      });
}

std::vector<Columns> Cover::by_columns(std::size_t row, std::size_t rows) const {
  const Band& band = *(std::ranges::upper_bound(bands_, row, {}, &Band::row) - 1);
  if (row + rows > band.end) return {};
  std::vector<Columns> all;
  for (std::size_t s = 0; s < band.segments; ++s) {
    const Segment& segment = segments_[band.first_segment + s];
    const Holder& h = holders_[segment.first_holder];
    const std::size_t width = segment.end - segment.col;
    if (h.shard->cols() != width) return {};
    const Lying run = lying(*h.shard, h.place + (row - band.row) * width, rows * width);
    all.push_back({run.bytes, run.stored, segment.col, width});
  }
  return all;
}

void Cover::hold_together(std::size_t first, std::size_t n, Disagreements& seen) const {
  if (holders_.size() == segments_.size()) return;
  std::vector<float> of_owner, of_other;
  by_segments(
      first, n,
      [&](const Segment& s, std::size_t down, std::size_t skip, std::size_t to, std::size_t count) {
        const Holder& owner = holders_[s.first_holder];
        const std::size_t place = owner.place + down * owner.shard->cols() + skip;
        for (std::size_t k = 1; k < s.holders; ++k) {
          const Holder& h = holders_[s.first_holder + k];
          const std::size_t here = h.place + down * h.shard->cols() + skip;
          if (same_bytes(*owner.shard, place, *h.shard, here, count)) continue;
          of_owner.resize(count);
          of_other.resize(count);
          const float* x = owner.shard->at(place, count, of_owner.data());
          const float* y = h.shard->at(here, count, of_other.data());
          settle(*owner.shard, of_owner, x);
          settle(*h.shard, of_other, y);
          if (std::memcmp(x, y, count * sizeof(float)) == 0) continue;
          std::size_t j = 0;
          while (std::bit_cast<std::uint32_t>(x[j]) == std::bit_cast<std::uint32_t>(y[j])) ++j;
          const std::size_t e = first + to + j;
          const Disagreement d{h.piece, e / cols_, e % cols_, owner.number, x[j], y[j]};
          const auto [known, is_new] = seen.emplace(h.number, d);
          const auto place_of = [](const Disagreement& at) {
            return std::tie(at.piece, at.row, at.column);
          };
          if (!is_new && place_of(d) < place_of(known->second)) known->second = d;
        }
      });
}

Joint::Joint(std::string id, std::vector<OfRank> shards, std::size_t ranks, bool rounds)
    : id_(std::move(id)), shards_(std::move(shards)), ranks_(ranks), rounds_(rounds) {
  if (shapes_fit() && enough()) cover();
}

Finding Joint::found(std::string detail) const {
  return {id_, "structure", infinite, std::move(detail)};
}

bool Joint::shapes_fit() {
  for (const auto& [rank, shard] : shards_) {
    const Placement& p = shard->placement;
    if (p.rows != first().rows || p.cols != first().cols || p.parts != first().parts) {
      before_.push_back(found("rank " + std::to_string(rank) + " says the whole is " +
                              size_of(p.rows, p.cols) + ", rank " +
                              std::to_string(shards_.front().rank) + " says " +
                              size_of(first().rows, first().cols) +
                              " (shares that are not equal need 'sizes' in their placement)"));
      return false;
    }
    if (!(shard->format == format())) {
      before_.push_back(found("rank " + std::to_string(rank) + " holds " +
                              std::string(shard->format.name) + " where rank " +
                              std::to_string(shards_.front().rank) + " holds " +
                              std::string(format().name)));
    }
    for (const Piece& piece : p.pieces) {
      if (!inside(piece.global, p.rows, p.cols) ||
          !inside(piece.local, shard->rows(), shard->cols()) ||
          piece.global.rows != piece.local.rows || piece.global.cols != piece.local.cols) {
        before_.push_back(found("a piece of rank " + std::to_string(rank) +
                                " lies outside the tensor or its shard"));
        return false;
      }
    }
  }
  return true;
}

// A file may claim any size. Believed is only a whole that is at most twice as large as what all
// ranks could hold together if each held as much as the one with the largest shard: of shares that
// are too short the holes are found.
bool Joint::enough() {
  std::size_t largest = 0;
  for (const auto& [rank, shard] : shards_)
    largest = std::max(largest, shard->rows() * shard->cols());
  const double most = static_cast<double>(largest) * static_cast<double>(ranks_);
  if (static_cast<double>(rows()) * static_cast<double>(cols()) <= 2 * most) return true;
  before_.push_back(found("the whole is said to be " + size_of(rows(), cols()) +
                          ", more than twice what " + std::to_string(ranks_) +
                          (ranks_ == 1 ? " rank" : " ranks") + " with at most " +
                          std::to_string(largest) + " elements can hold"));
  return false;
}

void Joint::cover() {
  const int parts = first().parts;
  std::map<int, Cover> by_part;
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    const Shard& shard = *shards_[s].shard;
    const int part = parts > 1 ? shard.placement.part : 0;
    by_part.try_emplace(part, rows(), cols()).first->second.add(s, shard);
  }
  for (auto& [part, cover] : by_part) {
    if (!cover.arrange()) {
      before_.push_back(found("its pieces overlap in more ways than can be put together"));
      covers_.clear();
      return;
    }
    covers_.push_back(std::move(cover));
  }
  if (parts > 1 && static_cast<int>(covers_.size()) != parts) {
    behind_.push_back(found(std::to_string(covers_.size()) + " of " + std::to_string(parts) +
                            " parts of the sum are there"));
  }
}

const float* Joint::at(std::size_t first_of, std::size_t n, float* room) const {
  if (first().parts <= 1) return covers_.front().at(first_of, n, room);
  std::fill(room, room + n, 0.0F);
  std::vector<float> rest(n);
  for (const Cover& cover : covers_) {
    const float* summand = cover.at(first_of, n, rest.data());
    for (std::size_t e = 0; e < n; ++e) room[e] += summand[e];
  }
  if (rounds_ && format().bits == 16) round_in_place({room, n}, format());
  return room;
}

void Joint::lie(std::size_t first_of, std::size_t n, float* room, std::vector<Lying>& runs) const {
  if (!lies_bare()) return Elements::lie(first_of, n, room, runs);
  covers_.front().lie(first_of, n, runs);
}

std::vector<Columns> Joint::by_columns(std::size_t row, std::size_t rows) const {
  return lies_bare() ? covers_.front().by_columns(row, rows) : std::vector<Columns>();
}

void Joint::hold_together(std::size_t first_of, std::size_t n, Disagreements& seen) const {
  for (const Cover& cover : covers_) cover.hold_together(first_of, n, seen);
}

std::vector<Finding> Joint::findings(const Disagreements& seen) const {
  std::vector<Finding> all = before_;
  for (const Cover& cover : covers_) {
    for (const std::size_t number : cover.shards()) {
      const auto d = seen.find(number);
      if (d == seen.end()) continue;
      all.push_back(
          found(fmt::format("replicas disagree: ranks {} and {} hold {:.9g} and {:.9g} at ({}, {})",
                            shards_[d->second.owner].rank, shards_[number].rank, d->second.counts,
                            d->second.here, d->second.row, d->second.column)));
    }
    if (const auto hole = cover.first_hole()) {
      all.push_back(found("no rank holds element (" + std::to_string(*hole / cols()) + ", " +
                          std::to_string(*hole % cols()) + ")"));
    }
  }
  all.insert(all.end(), behind_.begin(), behind_.end());
  return all;
}

}  // namespace plumb::trace
