#include "bounds/proof/certified.hpp"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "bounds/proof/term.hpp"

namespace plumb::bounds {
namespace {

constexpr std::size_t panel_rows = 480;  // whole tiles, each whole blocks of product's
constexpr std::size_t tile_rows = 60, tile_columns = 32;
constexpr std::size_t lanes = 32;  // columns of the doubled kernel's block
constexpr std::size_t tall = 3;    // its rows

void check(View<double> x) {
  const std::size_t stored = x.transposed ? x.cols : x.rows, width = x.transposed ? x.rows : x.cols;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < stored; ++i) {
    const double* row = x.data + i * x.stride;
    for (std::size_t j = 0; j < width; ++j) {
      const auto narrow = static_cast<double>(static_cast<float>(row[j]));
      wrong += narrow == row[j] && narrow - narrow == 0 ? 0 : 1;  // neither infinity nor NaN
    }
  }
  if (wrong > 0) {
    throw std::domain_error("a certified product needs finite numbers of FP32 or shorter");
  }
}

View<double> part(View<double> x, std::size_t first, std::size_t last, bool of_rows) {
  return of_rows ? rows(x, first, last) : columns(x, first, last);
}

// Is what `work` computes free of any rounding, overflow and invalid operation?
template <class Work>
bool exactly(const Work& work) {
  constexpr int all = FE_INEXACT | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID;
  std::feclearexcept(all);
  work();
  return std::fetestexcept(all) == 0;
}

// A power of two above the 2-norm of each row (or column).
std::vector<double> scales(View<double> x, bool of_rows) {
  std::vector<double> squares(of_rows ? x.rows : x.cols);
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < x.cols; ++j) squares[of_rows ? i : j] += x(i, j) * x(i, j);
  }
  for (double& s : squares) {
    // 2^-20 covers the sum's own roundings for 2^32 terms.
    if (s > 0) s = std::ldexp(1.0, std::ilogb(std::sqrt(s) * (1 + 0x1p-20)) + 1);
  }
  return squares;
}

// `height` rows by `lanes` columns; packed holds the columns of B, zeros beyond the last.
template <std::size_t height>
void doubled_tile(View<double> a, std::size_t i, const double* packed, const double* start,
                  double* value) {
  double h[height][lanes], l[height][lanes] = {};
  for (std::size_t r = 0; r < height; ++r) {
    for (std::size_t j = 0; j < lanes; ++j) h[r][j] = start[r * lanes + j];
  }
  for (std::size_t k = 0; k < a.cols; ++k) {
    for (std::size_t r = 0; r < height; ++r) {
      const double x = a(i + r, k);
      for (std::size_t j = 0; j < lanes; ++j) {
        const double y = packed[k * lanes + j];
        const double t = std::fma(x, y, h[r][j]);
        l[r][j] += std::fma(x, y, h[r][j] - t);
        h[r][j] = t;
      }
    }
  }
  for (std::size_t r = 0; r < height; ++r) {
    for (std::size_t j = 0; j < lanes; ++j) {
      value[r * lanes + j] = (h[r][j] - start[r * lanes + j]) + l[r][j];
    }
  }
}

// C's tile of rows [i, i + height) and columns [j, j + width) with twice the bits.
class Doubled {
 public:
  Doubled(View<double> a, View<double> b, Certified& c)
      : a_(a), b_(b), row_scale_(a.rows), column_scale_(b.cols), c_(c) {
    c.bounds = Matrix<double>(a.rows, b.cols);
  }

  void tile(std::size_t i, std::size_t i_end, std::size_t j, std::size_t j_end) {
    std::ranges::copy(scales(part(a_, i, i_end, true), true), row_scale_.begin() + index(i));
    std::ranges::copy(scales(part(b_, j, j_end, false), false), column_scale_.begin() + index(j));
    for (; j < j_end; j += lanes) {
      const std::size_t width = std::min(lanes, j_end - j);
      pack(j, width);
      std::size_t row = i;
      for (; row + tall <= i_end; row += tall) block<tall>(row, j, width);
      for (; row < i_end; ++row) block<1>(row, j, width);
    }
  }

 private:
  static std::ptrdiff_t index(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }

  void pack(std::size_t j, std::size_t width) {
    packed_.assign(b_.rows * lanes, 0);
    for (std::size_t k = 0; k < b_.rows; ++k) {
      for (std::size_t n = 0; n < width; ++n) packed_[k * lanes + n] = b_(k, j + n);
    }
  }

  template <std::size_t height>
  void block(std::size_t i, std::size_t j, std::size_t width) {
    double start[height * lanes] = {}, value[height * lanes];
    for (std::size_t r = 0; r < height; ++r) {
      for (std::size_t n = 0; n < width; ++n) {
        start[r * lanes + n] = 3 * row_scale_[i + r] * column_scale_[j + n];  // 1.5 2^k
      }
    }
    doubled_tile<height>(a_, i, packed_.data(), start, value);
    const double n = static_cast<double>(a_.cols);
    for (std::size_t r = 0; r < height; ++r) {
      for (std::size_t w = 0; w < width; ++w) {
        const double c = value[r * lanes + w];
        // Scales are at most twice the norms, (n^2 + 2n) / 2 roundings of 2^-106 2^k.
        const double sums = term<"certified.sums">((n * n + 2 * n) * 0x1p-106 * row_scale_[i + r] *
                                                   column_scale_[j + w]);
        c_.value(i + r, j + w) = c;
        c_.bounds(i + r, j + w) =
            (term<"certified.fp64">(0x1p-53 * std::fabs(c)) + sums) * (1 + 0x1p-50);
      }
    }
  }

  View<double> a_, b_;
  std::vector<double> row_scale_, column_scale_;
  std::vector<double> packed_;
  Certified& c_;
};

void multiply_into(Certified& c, View<double> a, View<double> b, std::size_t i, std::size_t j) {
  multiply(a, b, c.value.row(i) + j, c.value.cols);
}

}  // namespace

Certified doubled_product(View<double> a, View<double> b) {
  if (a.cols != b.rows) throw std::invalid_argument("inner sizes differ");
  check(a);
  check(b);
  Certified c{.value = Matrix<double>(a.rows, b.cols, to_be_written), .exact = 0};
  Doubled(a, b, c).tile(0, a.rows, 0, b.cols);
  return c;
}

Certified certified_product(View<double> a, View<double> b) {
  if (a.cols != b.rows) throw std::invalid_argument("inner sizes differ");
  check(a);
  check(b);
  Certified c{.value = Matrix<double>(a.rows, b.cols, to_be_written)};
  std::optional<Doubled> doubled;
  std::size_t inexact = 0;
  for (std::size_t i = 0; i < a.rows; i += panel_rows) {
    const std::size_t i_end = std::min(i + panel_rows, a.rows);
    for (std::size_t j = 0; j < b.cols; j += tile_columns) {
      const std::size_t j_end = std::min(j + tile_columns, b.cols);
      const View<double> tall_part = part(a, i, i_end, true), high = part(b, j, j_end, false);
      if (exactly([&] { multiply_into(c, tall_part, high, i, j); })) continue;
      for (std::size_t t = i; t < i_end; t += tile_rows) {
        const std::size_t t_end = std::min(t + tile_rows, i_end);
        const View<double> wide = part(a, t, t_end, true);
        if (exactly([&] { multiply_into(c, wide, high, t, j); })) continue;
        if (!doubled) doubled.emplace(a, b, c);
        doubled->tile(t, t_end, j, j_end);
        inexact += (t_end - t) * (j_end - j);
      }
    }
  }
  const double all = static_cast<double>(c.value.size());
  c.exact = all > 0 ? 1 - static_cast<double>(inexact) / all : 1;
  return c;
}

}  // namespace plumb::bounds
