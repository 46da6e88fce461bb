#include "probe/masked.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace plumb::probe {
namespace {

// Asks where products meet, and remembers which way of asking works.
class Masks {
 public:
  Masks(const Subject& subject, std::size_t n, Read read)
      : subject_(subject), n_(n), read_(read), range_(operands_of(subject.input)) {}

  std::optional<std::vector<std::vector<std::size_t>>> meetings(const std::vector<Meet>& asked) {
    const std::vector<Pair> pairs = pairs_of(asked);
    if (!one_by_one_) {
      if (const auto sizes = by_count(pairs)) return dealt(*sizes, asked);
      one_by_one_ = true;
    }
    if (broken_ || n_ > longest_one_by_one) return {};
    return dealt(by_looking(pairs), asked);
  }

 private:
  using Pair = std::pair<std::size_t, std::size_t>;
  static constexpr std::size_t longest_one_by_one = 256;
  // At a time, a limit of memory: so many rows, or rows of so many numbers in all.
  static constexpr std::size_t least_rows = 512, most_numbers = 1 << 20;

  static std::vector<Pair> pairs_of(const std::vector<Meet>& asked) {
    std::vector<Pair> pairs;
    for (const Meet& one : asked) {
      for (const std::size_t j : one.others) pairs.emplace_back(one.i, j);
    }
    return pairs;
  }
  static std::vector<std::vector<std::size_t>> dealt(const std::vector<std::size_t>& sizes,
                                                     const std::vector<Meet>& asked) {
    std::vector<std::vector<std::size_t>> all;
    auto at = sizes.begin();
    for (const Meet& one : asked) {
      const auto end = at + static_cast<std::ptrdiff_t>(one.others.size());
      all.emplace_back(at, end);
      at = end;
    }
    return all;
  }

  float one() const { return std::ldexp(1.0F, 2 * range_.smallest); }

  void mask(Tensor& a, Tensor& b, std::size_t row, std::size_t i, std::size_t j) const {
    put(a, b, row, i, 2 * range_.largest, false, subject_.input);
    put(a, b, row, j, 2 * range_.largest, true, subject_.input);
  }

  // Rows of n numbers that are asked for at a time.
  std::size_t rows_at_a_time() const {
    const std::size_t each = n_ * (read_ == Read::first ? subject_.tile : 1);
    return std::max(least_rows, most_numbers / each);
  }

  std::optional<std::vector<std::size_t>> by_count(std::span<const Pair> pairs) {
    std::vector<std::size_t> sizes;
    for (std::size_t first = 0; first < pairs.size(); first += rows_at_a_time()) {
      const std::size_t some = std::min(rows_at_a_time(), pairs.size() - first);
      if (!count(pairs.subspan(first, some), sizes)) return {};
    }
    return sizes;
  }

  // Appends where the products of each pair meet; false where results do not tell. Two more rows, n ones
  // and masks by themselves, have to give what they should.
  bool count(std::span<const Pair> pairs, std::vector<std::size_t>& sizes) {
    const std::size_t rows = pairs.size();
    Tensor a(rows + 2, n_), b(rows + 2, n_);
    for (std::size_t row = 0; row < rows + 1; ++row) {
      for (std::size_t k = 0; k < n_; ++k) one_at(a, b, row, k);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      mask(a, b, row, pairs[row].first, pairs[row].second);
    }
    mask(a, b, rows + 1, 0, n_ - 1);
    const std::vector<float> found = sums_of(subject_, a, b, read_);
    broken_ = found[rows] != static_cast<float>(n_) * one() || found[rows + 1] != 0;
    if (broken_) return false;
    for (std::size_t row = 0; row < rows; ++row) {
      const float later = found[row] / one();
      const bool whole = later >= 0 && later <= static_cast<float>(n_ - 2);
      if (!whole || later != std::floor(later)) return false;
      sizes.push_back(n_ - static_cast<std::size_t>(later));
    }
    return true;
  }

  // One product at a time is 1 (two rows of each pair are masks alone).
  std::vector<std::size_t> by_looking(std::span<const Pair> pairs) const {
    std::vector<std::size_t> sizes;
    const std::size_t at_a_time = std::max<std::size_t>(1, rows_at_a_time() / n_);
    for (std::size_t first = 0; first < pairs.size(); first += at_a_time) {
      look(pairs.subspan(first, std::min(at_a_time, pairs.size() - first)), sizes);
    }
    return sizes;
  }
  void look(std::span<const Pair> pairs, std::vector<std::size_t>& sizes) const {
    Tensor a(pairs.size() * n_, n_), b(pairs.size() * n_, n_);
    for (std::size_t row = 0; row < a.rows; ++row) {
      one_at(a, b, row, row % n_);
      mask(a, b, row, pairs[row / n_].first, pairs[row / n_].second);
    }
    const std::vector<float> found = sums_of(subject_, a, b, read_);
    for (auto at = found.begin(); at != found.end(); at += static_cast<std::ptrdiff_t>(n_)) {
      const auto end = at + static_cast<std::ptrdiff_t>(n_);
      sizes.push_back(n_ - static_cast<std::size_t>(std::count(at, end, one())));
    }
  }

  void one_at(Tensor& a, Tensor& b, std::size_t row, std::size_t k) const {
    put(a, b, row, k, 2 * range_.smallest, false, subject_.input);
  }

  const Subject& subject_;
  std::size_t n_;
  Read read_;
  Range range_;
  bool one_by_one_ = false;
  bool broken_ = false;  // results are no sums of masks
};

}  // namespace

std::vector<float> sums_of(const Subject& subject, const Tensor& a, const Tensor& b, Read read) {
  std::vector<Operands> asked;
  const std::size_t tile = subject.tile, each = read == Read::first ? 1 : tile;
  for (std::size_t first = 0; first < a.rows; first += each) {
    // Always whole tiles: another shape could have another order.
    Operands next{Tensor(tile, a.cols), Tensor(a.cols, tile)};
    for (std::size_t r = 0; r < std::min(each, a.rows - first); ++r) {
      std::copy_n(a.row(first + r), a.cols, next.a.row(r));
      for (std::size_t k = 0; k < a.cols; ++k) next.b(k, r) = b(first + r, k);
    }
    asked.push_back(std::move(next));
  }
  const std::vector<Tensor> c = subject.multiply(asked);
  std::vector<float> sums(a.rows);
  for (std::size_t r = 0; r < a.rows; ++r) sums[r] = c[r / each](r % each, r % each);
  return sums;
}

Range operands_of(const Format& input) {
  const int smallest =
      input.emin >= -14 ? input.emin - (input.emin > -14 ? input.precision - 1 : 0) : -14;
  return {std::min(input.emax, 60), smallest};
}

void put(Tensor& a, Tensor& b, std::size_t row, std::size_t k, int exponent, bool negative,
         const Format& input) {
  const Range range = operands_of(input);
  const int left = std::clamp(exponent - exponent / 2, range.smallest, range.largest);
  a(row, k) = std::ldexp(negative ? -1.0F : 1.0F, left);
  b(row, k) = std::ldexp(1.0F, exponent - left);
}

Tree tree_of(const Subject& subject, std::size_t n) {
  if (n == 0) return {};
  if (n == 1) return leaf(0);
  for (const Read read : {Read::diagonal, Read::first}) {
    Masks masks(subject, n, read);
    const auto meets = [&](const std::vector<Meet>& asked) { return masks.meetings(asked); };
    if (Tree tree = tree_from(n, meets)) return tree;
    if (subject.tile == 1) break;
  }
  return {};
}

}  // namespace plumb::probe
