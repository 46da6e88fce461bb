#include "probe/masked.hpp"

#include <algorithm>
#include <cmath>

namespace plumb::probe {
namespace {

// Asks where products meet, and remembers which way of asking works.
class Masks {
 public:
  Masks(const Subject& subject, std::size_t n, Read read)
      : subject_(subject), n_(n), read_(read), range_(operands_of(subject.input)) {}

  // Do n ones, and the masks by themselves, give what they should?
  bool work() {
    Tensor a(2, n_), b(2, n_);
    for (std::size_t k = 0; k < n_; ++k) one_at(a, b, 0, k);
    mask(a, b, 1, 0, n_ - 1);
    const std::vector<float> found = sums_of(subject_, a, b, read_);
    return found[0] == static_cast<float>(n_) * one() && found[1] == 0;
  }

  std::optional<std::vector<std::size_t>> meetings(std::size_t i,
                                                   const std::vector<std::size_t>& others) {
    if (!one_by_one_) {
      if (auto sizes = by_count(i, others)) return sizes;
      one_by_one_ = true;
    }
    if (n_ > longest_one_by_one) return {};
    std::vector<std::size_t> sizes;
    for (const std::size_t j : others) sizes.push_back(one_by_one(i, j));
    return sizes;
  }

 private:
  static constexpr std::size_t longest_one_by_one = 256;
  static constexpr std::size_t most_rows = 512;  // at a time: a limit of memory

  float one() const { return std::ldexp(1.0F, 2 * range_.smallest); }

  void mask(Tensor& a, Tensor& b, std::size_t row, std::size_t i, std::size_t j) const {
    put(a, b, row, i, 2 * range_.largest, false, subject_.input);
    put(a, b, row, j, 2 * range_.largest, true, subject_.input);
  }

  std::optional<std::vector<std::size_t>> by_count(std::size_t i,
                                                   const std::vector<std::size_t>& others) const {
    std::vector<std::size_t> sizes;
    for (std::size_t first = 0; first < others.size(); first += most_rows) {
      const std::size_t some = std::min(most_rows, others.size() - first);
      if (!count(i, std::span(others).subspan(first, some), sizes)) return {};
    }
    return sizes;
  }

  // Appends where product i meets the others; false where results do not tell.
  bool count(std::size_t i, std::span<const std::size_t> others,
             std::vector<std::size_t>& sizes) const {
    Tensor a(others.size(), n_), b(others.size(), n_);
    for (std::size_t row = 0; row < others.size(); ++row) {
      for (std::size_t k = 0; k < n_; ++k) one_at(a, b, row, k);
      mask(a, b, row, i, others[row]);
    }
    for (const float sum : sums_of(subject_, a, b, read_)) {
      const float later = sum / one();
      const bool whole = later >= 0 && later <= static_cast<float>(n_ - 2);
      if (!whole || later != std::floor(later)) return false;
      sizes.push_back(n_ - static_cast<std::size_t>(later));
    }
    return true;
  }

  std::size_t one_by_one(std::size_t i, std::size_t j) const {
    Tensor a(n_, n_), b(n_, n_);  // two rows are masks alone
    for (std::size_t k = 0; k < n_; ++k) {
      one_at(a, b, k, k);
      mask(a, b, k, i, j);
    }
    const std::vector<float> found = sums_of(subject_, a, b, read_);
    return n_ - static_cast<std::size_t>(std::ranges::count(found, one()));
  }

  void one_at(Tensor& a, Tensor& b, std::size_t row, std::size_t k) const {
    put(a, b, row, k, 2 * range_.smallest, false, subject_.input);
  }

  const Subject& subject_;
  std::size_t n_;
  Read read_;
  Range range_;
  bool one_by_one_ = false;
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
    if (!masks.work()) return {};
    const auto meets = [&](std::size_t i, const std::vector<std::size_t>& others) {
      return masks.meetings(i, others);
    };
    if (Tree tree = tree_from(n, meets)) return tree;
    if (subject.tile == 1) break;
  }
  return {};
}

}  // namespace plumb::probe
