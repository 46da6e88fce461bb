#include "bounds/examples/sampled_product.hpp"

#include <algorithm>
#include <cmath>

#include "bounds/examples/shaped.hpp"
#include "number/outcome.hpp"
#include "number/philox.hpp"
#include "number/rounding.hpp"

namespace plumb::bounds {
namespace {

// Of a result that is held with what is known of each element.
constexpr std::size_t most_elements = 1 << 21;

// `wanted` of n rows, in runs.
Sampled sampled(std::size_t n, std::size_t run, std::size_t wanted, std::uint64_t key) {
  const std::size_t all = (n + run - 1) / run;
  const std::size_t runs = wanted >= n ? all : std::max<std::size_t>(1, wanted / run);
  const std::size_t judged = wanted >= n ? run : std::min(run, wanted);
  Sampled of;
  for (std::size_t r = 0; r < runs; ++r) {
    const std::size_t low = r * all / runs, high = (r + 1) * all / runs;
    const auto at =
        low + static_cast<std::size_t>(uniform(key, r) * static_cast<double>(high - low));
    for (std::size_t i = at * run; i < std::min(n, (at + 1) * run); ++i) {
      if (i - at * run < judged) of.judged.push_back(of.drawn.size());
      of.drawn.push_back(i);
    }
  }
  return of;
}

double drawn(std::uint64_t input, std::size_t element, const Format& format) {
  return round_to(normal_at(input, element), format, {.saturate = true});
}

}  // namespace

double ProductSample::share() const {
  return static_cast<double>(elements()) /
         (static_cast<double>(of_rows) * static_cast<double>(of_cols));
}

ProductSample sample_of(const std::vector<std::size_t>& shape, std::size_t row_run,
                        std::size_t col_run, std::size_t products) {
  const std::size_t rows = shape[0], inner = shape[1], cols = shape[2];
  const auto within = [](std::size_t n, std::size_t most, const char* what) {
    if (n <= most) return;
    throw Failure("a product with " + std::to_string(n) + " " + what + " is beyond the " +
                  std::to_string(most) + " that bounds are for; choose a smaller shape");
  };
  within(inner, std::size_t(1) << 22, "terms in a sum");
  within(std::max(rows, cols), std::size_t(1) << 31, "rows or columns");
  const std::size_t elements = std::clamp<std::size_t>(products / inner, 1, most_elements);
  const auto whole = [](std::size_t n, std::size_t run) { return std::max(run, n / run * run); };
  const auto side = static_cast<std::size_t>(std::sqrt(static_cast<double>(elements)));
  std::size_t of_cols = std::min({cols, elements, whole(side, col_run)});
  const std::size_t of_rows = std::min(rows, std::max<std::size_t>(1, elements / of_cols));
  of_cols = std::min(cols, std::max<std::size_t>(1, elements / of_rows));
  return {inner, rows, cols, sampled(rows, row_run, of_rows, 11),
          sampled(cols, col_run, of_cols, 13)};
}

Matrix<double> drawn_rows(const ProductSample& sample, const Format& format) {
  Matrix<double> x(sample.rows.drawn.size(), sample.inner);
  for (std::size_t i = 0; i < x.rows; ++i) {
    const std::size_t first = sample.rows.drawn[i] * sample.inner;
    for (std::size_t k = 0; k < x.cols; ++k) x(i, k) = drawn(0, first + k, format);
  }
  return x;
}

Matrix<double> drawn_columns(const ProductSample& sample, const Format& format) {
  Matrix<double> x(sample.cols.drawn.size(), sample.inner);
  for (std::size_t j = 0; j < x.rows; ++j) {
    for (std::size_t k = 0; k < x.cols; ++k) {
      x(j, k) = drawn(1, k * sample.of_cols + sample.cols.drawn[j], format);
    }
  }
  return x;
}

// A normal number is a radius, which falls with 1 - u, times a cosine: only where the radius is
// beyond the largest number so far is the number itself asked for.
double largest_drawn(std::uint64_t input, std::size_t count, const Format& format) {
  if (count > std::size_t(1) << 33) {
    throw Failure("a tensor of more than 2^33 numbers takes long to scale; choose a smaller shape");
  }
  double largest = 0;
  std::uint64_t least = 0;  // of the words that may make a larger one
  for (std::size_t first = 0; first < count; first += 4) {
    const Bits words = random_block(2 * input, first / 4);
    if (*std::ranges::max_element(words) < least) continue;
    for (std::size_t i = first; i < std::min(count, first + 4); ++i) {
      if (words[i - first] < least) continue;
      largest = std::max(largest, std::fabs(normal_at(input, i)));
      least =
          static_cast<std::uint64_t>(0x1p32 * (1 - std::exp(-largest * largest / 2)) * (1 - 1e-9));
    }
  }
  return std::fabs(round_to(largest, format, {.saturate = true}));
}

}  // namespace plumb::bounds
