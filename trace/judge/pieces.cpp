#include "trace/judge/pieces.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "number/philox.hpp"

namespace plumb::trace {
namespace {

Matrix<double> rows_of(const GivenOperand& of, std::span<const std::size_t> which) {
  const std::size_t cols = of.shape.cols;
  Matrix<double> numbers(which.size(), cols, to_be_written);
  for (std::size_t i = 0; i < which.size();) {
    std::size_t next = i + 1;  // neighbours are read at once
    while (next < which.size() && which[next] == which[next - 1] + 1) ++next;
    of.tensor->read(which[i] * cols, {numbers.row(i), (next - i) * cols});
    i = next;
  }
  return numbers;
}

Matrix<double> columns_of(const GivenOperand& of, std::span<const std::size_t> which) {
  Matrix<double> numbers(of.shape.rows, which.size(), to_be_written);
  std::vector<double> row(of.shape.cols);
  for (std::size_t i = 0; i < numbers.rows; ++i) {
    of.tensor->read(i * of.shape.cols, row);
    for (std::size_t j = 0; j < which.size(); ++j) numbers(i, j) = row[which[j]];
  }
  return numbers;
}

}  // namespace

Matrix<double> piece_of(const GivenOperand& of, Cut cut, std::span<const std::size_t> which) {
  if (cut == Cut::rows) return rows_of(of, which);
  if (cut == Cut::columns) return columns_of(of, which);
  Matrix<double> all(of.shape.rows, of.shape.cols, to_be_written);
  of.tensor->read(0, all.values);
  return all;
}

std::size_t element_of(const GivenOperand& of, Cut cut, std::span<const std::size_t> which,
                       std::size_t e) {
  if (cut == Cut::none) return e;
  if (cut == Cut::rows) return which[e / of.shape.cols] * of.shape.cols + e % of.shape.cols;
  return e / which.size() * of.shape.cols + which[e % which.size()];
}

void refuse_not_finite(const GivenOperand& of, Cut cut, std::span<const std::size_t> which,
                       const Matrix<double>& numbers) {
  const auto odd = std::ranges::find_if(numbers.values, [](double x) { return !std::isfinite(x); });
  if (odd == numbers.values.end()) return;
  const auto e = static_cast<std::size_t>(odd - numbers.values.begin());
  throw Failure(
      fmt::format("{} of the input {} is {}, and bounds are for finite inputs; leave such "
                  "rows out, or write what stands for it as a number",
                  of.place(element_of(of, cut, which, e)), of.text(), *odd));
}

std::vector<std::size_t> drawn_rows(std::size_t n, std::size_t all, std::uint64_t seed) {
  std::vector<std::size_t> rows;
  const std::uint64_t key = key_of(seed, "rows");
  for (std::size_t row = 0; row < all && rows.size() < n; ++row) {
    const auto wanted = static_cast<double>(n - rows.size());
    if (uniform(key, row) * static_cast<double>(all - row) < wanted) rows.push_back(row);
  }
  return rows;
}

}  // namespace plumb::trace
