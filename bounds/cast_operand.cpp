#include "bounds/cast_operand.hpp"

#include <algorithm>
#include <cmath>

#include "bounds/operation.hpp"
#include "number/ars.hpp"
#include "number/rounding.hpp"

namespace plumb::bounds {
namespace {

bool is_power(double x) {
  int exponent = 0;
  return std::frexp(x, &exponent) == 0.5;
}

// Calls f with each element's place, and the number of its block along the row.
template <class F>
void for_each(const CastOperand& of, const F& f) {
  for (std::size_t i = 0; i < of.input.rows; ++i) {
    for (std::size_t b = 0; b + 1 < of.begins.size(); ++b) {
      for (std::size_t k = of.begins[b]; k < of.begins[b + 1]; ++k) f(i, k, b);
    }
  }
}

// The power of two of amax_scale.
double tensor_scale(double largest, const Format& to) {
  RealRoundings roundings;
  const Tensor x(1, 1, static_cast<float>(largest));
  const Attributes attributes{{"largest", to.largest()}};
  return known_operation("amax_scale").evaluate({{&x}, attributes, {}, roundings})[0].values[0];
}

Matrix<double> block_scales_of(const CastOperand& of, double largest) {
  const CastRule& rule = of.rule;
  const std::size_t blocks = of.begins.size() - 1, rows = of.input.rows;
  Matrix<double> scales(rows, blocks);
  for_each(of, [&](std::size_t i, std::size_t k, std::size_t b) {
    double& most = scales(i / rule.across * rule.across, b);
    most = std::max(most, std::fabs(of.input(i, k)));
  });
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t b = 0; b < blocks; ++b) {
      scales(i, b) = i % rule.across == 0 ? static_cast<double>(static_cast<float>(block_scale(
                                                scales(i, b), rule.scales, rule.format, largest)))
                                          : scales(i - 1, b);
    }
  }
  return scales;
}

}  // namespace

double largest_magnitude(const Matrix<double>& x) {
  double largest = 0;
  for (const double v : x.values) largest = std::max(largest, std::fabs(v));
  return largest;
}

CastOperand cast_operand(Matrix<double> input, const CastRule& rule, double largest, int parts,
                         std::uint64_t key) {
  CastOperand of{rule, std::move(input), {}, {}, {0}};
  const std::size_t n = of.input.cols;
  of.begins = rule.in_blocks() ? block_starts(n, rule.along, parts) : block_starts(n, n, 1);
  of.scales = Matrix<double>(of.input.rows, of.begins.size() - 1, 1);
  if (rule.in_blocks()) of.scales = block_scales_of(of, largest);
  double by = 1;
  if (rule.scaled == CastRule::Scaled::by_tensor) {
    by = tensor_scale(largest, rule.format);
    std::ranges::fill(of.scales.values, 1 / by);
  }
  Cast cast{.saturate = rule.scaled != CastRule::Scaled::no};
  if (rule.by_chance) cast.how = Rounding::stochastic;
  of.codes = Matrix<double>(of.input.rows, n);
  for_each(of, [&](std::size_t i, std::size_t k, std::size_t b) {
    const float x = static_cast<float>(of.input(i, k));
    const float scaled = rule.in_blocks()
                             ? in_scale(x, static_cast<float>(of.scales(i, b)), rule.scales)
                             : x * static_cast<float>(by);
    if (rule.by_chance) cast.word = random_word(key, i * n + k);
    of.codes(i, k) = static_cast<double>(round_to(scaled, rule.format, cast));
  });
  return of;
}

CastOperand rows_of(const std::vector<std::size_t>& numbers, const CastOperand& x) {
  const auto rows = [&](const Matrix<double>& of) {
    Matrix<double> y(numbers.size(), of.cols);
    for (std::size_t i = 0; i < y.rows; ++i) std::copy_n(of.row(numbers[i]), of.cols, y.row(i));
    return y;
  };
  return {x.rule, rows(x.input), rows(x.codes), rows(x.scales), x.begins};
}

Matrix<double> CastOperand::exact() const {
  Matrix<double> x = codes;
  for_each(*this, [&](std::size_t i, std::size_t k, std::size_t b) { x(i, k) *= scales(i, b); });
  return x;
}

Matrix<double> CastOperand::in_fp32() const {
  Matrix<double> x = exact();
  for (double& v : x.values) v = static_cast<double>(static_cast<float>(v));
  return x;
}

Matrix<double> CastOperand::moved() const {
  Matrix<double> x = exact();
  for_each(*this, [&](std::size_t i, std::size_t k, std::size_t b) {
    double& v = x(i, k);
    const double scale = scales(i, b), sought = std::fabs(input(i, k) / scale);
    v = std::fabs(v - input(i, k));
    if (!rule.by_chance || scale == 0) return;
    v = std::max(v, ulp(sought * (1 + 0x1p-22), rule.format) * scale);
  });
  return x;
}

bool CastOperand::powers() const { return std::ranges::all_of(scales.values, is_power); }

}  // namespace plumb::bounds
