#include "trace/row_sums.hpp"

#include <cstdint>
#include <cstring>

#include "trace/kept.hpp"
#include "trace/whole.hpp"

namespace plumb::trace {
namespace {

constexpr std::size_t short_row = 16 * lanes;

OfReference in_fp64(const float* reference, std::size_t n, const Ulps& ulps) {
  OfReference row;
  for (std::size_t j = 0; j < n; ++j) {
    const double r = reference[j], u = ulps(reference[j]);
    row.energy += r * r;
    row.floor += u * u * (1.0 / 12);
  }
  return row;
}

OfReference of_zeros(std::size_t n, const Ulps& ulps) {
  const double u = ulps(0.0F);
  return {0, static_cast<double>(n) * u * u * (1.0 / 12)};
}

// A difference's sums over a short row, lane by lane.
struct ShortSums {
  Floats energy{}, along{}, free{}, excess{};
  std::size_t different = 0;

  // Adds e^2 to the columns, where there are any.
  template <bool with_columns>
  void add(const float* reference, const float* other, const Ulps& ulps, float* columns) {
    Floats r, x;
    std::memcpy(&r, reference, sizeof r);
    std::memcpy(&x, other, sizeof x);
    // Draws are read in turn, a stretch of each.
    if constexpr (with_columns) __builtin_prefetch(other + stretch);
    keep(r);
    different += count_unequal(x, r);
    // Whether |e| or u is larger FP32 says rightly: u is a power of two, and e is exact up to half of r.
    const Floats e = x - r;
    const Floats size = (Floats)((Ints)e & 0x7fffffff), u = ulps(r);
    const Floats small = size < u ? size : u, left = size - small;
    free = free < small ? small : free;
    excess = excess < left ? left : excess;
    const Floats square = e * e;
    energy += square;
    along += e * r;
    if constexpr (with_columns) {
      Floats sums;
      std::memcpy(&sums, columns, sizeof sums);
      sums += square;
      std::memcpy(columns, &sums, sizeof sums);
    }
  }
};

// At most short_row elements.
template <bool with_columns>
ShortSums short_sums(const float* reference, const float* other, std::size_t n, const Ulps& ulps,
                     float* columns) {
  ShortSums sums;
  by_groups<lanes>(reference, other, n, [&](const float* r, const float* x, auto, std::size_t k) {
    sums.add<with_columns>(r, x, ulps, columns + k);
  });
  return sums;
}

}  // namespace

OfReference of_reference(const float* reference, std::size_t n, const Ulps& ulps) {
  if (n < lanes) return in_fp64(reference, n, ulps);
  OfReference row;
  for (std::size_t j = 0; j < n; j += short_row) {
    const std::size_t width = std::min(short_row, n - j);
    Floats energy{}, floor{};
    Ints bits{};  // of all, but for signs
    by_groups<lanes>(reference + j, reference + j, width,
                     [&](const float* of_r, auto, const auto& count, auto) {
                       Floats r, u{};
                       std::memcpy(&r, of_r, sizeof r);
                       __builtin_prefetch(of_r + stretch);
                       energy += r * r;
                       bits |= (Ints)r << 1;
                       r = ulps(r);
                       std::memcpy(&u, &r, count * sizeof(float));
                       floor += u * u;
                     });
    OfReference here{static_cast<double>(total_of(energy)),
                     static_cast<double>(total_of(floor)) * (1.0 / 12)};
    if (!any(bits != 0)) {
      here = of_zeros(width, ulps);
    } else if (!kept(total_of(energy)) || !kept(total_of(floor))) {
      here = in_fp64(reference + j, width, ulps);
    }
    row.energy += here.energy;
    row.floor += here.floor;
  }
  return row;
}

void add_ulps(const float* reference, std::size_t n, const Ulps& ulps,
              std::vector<float>& columns) {
  by_groups<lanes>(reference, reference, n,
                   [&](const float* of_r, auto, const auto& count, std::size_t j) {
                     Floats r, sums;
                     std::memcpy(&r, of_r, sizeof r);
                     std::memcpy(&sums, &columns[j], sizeof sums);
                     r = ulps(r);
                     Floats u{};
                     std::memcpy(&u, &r, count * sizeof(float));
                     sums += u;
                     std::memcpy(&columns[j], &sums, sizeof sums);
                   });
}

// Returns false, and adds nothing, where a sum may have lost more than its rounding.
template <bool with_columns>
bool RowSums::in_fp32(const float* reference, const float* other, std::size_t n, OfRows::Row* rows,
                      double* columns) {
  if constexpr (with_columns) std::ranges::fill(squares_, 0.0F);
  double along = 0;
  std::size_t differ = 0;
  for (std::size_t i = 0; i < n; ++i) {
    OfRows::Row row;
    float largest = 0;
    for (std::size_t j = 0; j < cols_; j += short_row) {
      const std::size_t from = i * cols_ + j, width = std::min(short_row, cols_ - j);
      const ShortSums sums = short_sums<with_columns>(reference + from, other + from, width, ulps_,
                                                      squares_.data() + j);
      differ += sums.different;
      const float energy = total_of(sums.energy), size = total_of(sums.along);
      const float free = largest_of(sums.free), excess = largest_of(sums.excess);
      const bool none = energy == 0 && free == 0 && excess == 0;
      if (!none && !(kept(energy) && std::fabs(size) < most_kept)) return false;
      row.energy += static_cast<double>(energy);
      along += static_cast<double>(size);
      largest = std::max(largest, free);
      row.excess = std::max(row.excess, excess);
    }
    row.free = static_cast<double>(largest * largest);
    rows[i] = row;
  }
  along_ += along;
  different_ += static_cast<double>(differ);
  if constexpr (with_columns) {
    for (std::size_t j = 0; j < cols_; ++j) columns[j] += static_cast<double>(squares_[j]);
  }
  return true;
}

OfRows::Row RowSums::in_fp64(const float* reference, const float* other, double* columns) {
  OfRows::Row row;
  for (std::size_t j = 0; j < cols_; ++j) {
    const double r = reference[j], e = other[j] - r;
    const float size = std::fabs(other[j] - reference[j]), u = ulps_(reference[j]);
    const float small = size < u ? size : u;
    different_ += other[j] != reference[j] ? 1 : 0;
    row.energy += e * e;
    along_ += e * r;
    row.free = std::max(row.free, static_cast<double>(small) * small);
    row.excess = std::max(row.excess, size - small);
    if (columns != nullptr) columns[j] += e * e;
  }
  return row;
}

void RowSums::see(const float* reference, const float* other, std::size_t n, OfRows::Row* rows,
                  double* columns) {
  if (cols_ >= lanes && (columns != nullptr ? in_fp32<true>(reference, other, n, rows, columns)
                                            : in_fp32<false>(reference, other, n, rows, columns)))
    return;
  for (std::size_t i = 0; i < n; ++i)
    rows[i] = in_fp64(reference + i * cols_, other + i * cols_, columns);
}

}  // namespace plumb::trace
