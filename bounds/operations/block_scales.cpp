// block_scales: one scale for each block of a tensor, from its largest finite magnitude
//
//   inputs       x (N, M), [ids (T, k)]
//   outputs      s (blocks down, blocks along) and, of nested scales, t (1, 1)
//   attributes   rows, cols (of a block), rule (number of a ScaleRule), sliced_rows, [experts]
//   evaluate     `output` is the format of the elements that are to be scaled. Blocks lie as
//                bounds/operations/block_grid.hpp says.
//   tolerance    0: of the same x every correct evaluation gives the same bits.
#include <cmath>

#include "bounds/operations/block_grid.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

double held(float x) { return static_cast<double>(x); }

double held(double x) { return static_cast<double>(static_cast<float>(x)); }

double held(const RunningError& x) { return held(x.value); }

double held(const ErrorMoments& x) { return held(x.held()); }

double held(const BigFloat& x) { return held(static_cast<double>(x)); }

template <class T>
Matrix<double> largest_magnitudes(const Matrix<T>& x, const Grid& grid) {
  Matrix<double> amax(grid.rows.size() - 1, grid.cols.size() - 1);
  for (std::size_t r = 0; r < amax.rows; ++r) {
    for (std::size_t i = grid.rows[r]; i < grid.rows[r + 1]; ++i) {
      for (std::size_t c = 0; c < amax.cols; ++c) {
        for (std::size_t j = grid.cols[c]; j < grid.cols[c + 1]; ++j) {
          const double size = std::fabs(held(x(grid.order[i], j)));
          if (std::isfinite(size)) amax(r, c) = std::max(amax(r, c), size);
        }
      }
    }
  }
  return amax;
}

template <class T>
std::vector<Matrix<T>> scales(const Call<T>& call) {
  const auto rule = static_cast<ScaleRule>(call.count("rule"));
  const Matrix<double> amax = largest_magnitudes(call[0], grid_of(call, 1));
  const bool nested = rule == ScaleRule::nested;
  double all = 0;
  for (const double size : amax.values) all = std::max(all, size);
  const double t = nested ? nested_scale(all, call.how.output) : 1;
  Matrix<T> s(amax.rows, amax.cols);
  for (std::size_t b = 0; b < s.size(); ++b) {
    const double scale = block_scale(amax.values[b], rule, call.how.output, t);
    s.values[b] = static_cast<T>(static_cast<float>(scale));
  }
  std::vector<Matrix<T>> outputs = single_output(std::move(s));
  if (nested) outputs.emplace_back(1, 1, static_cast<T>(t));
  return outputs;
}

}  // namespace

extern const Operation block_scales{
    .id = "block_scales",
    .evaluate = scales<float>,
    .value = scales<double>,
    .truth = scales<BigFloat>,
    .tolerance = tolerance_by<scales<RunningError>, scales<ErrorMoments>>,
    .sums = SumOrder::none,
    .traits = {.makes_scales = true, .scales_output = true, .shaped_by_parts = true, .exact = true},
    .schema = {.inputs = {where({"x", "T", "M"}, "experts", "T k", "M"),
                          given({"ids", "T", "k"}, "experts")},
               .outputs = {{"s", "*", "*"}, given({"t", "1", "1"}, "rule", 4)},
               .attributes = {count("rows"), count("cols"), count("rule", 0, 4),
                              flag("sliced_rows"), or_else(count("experts"))},
               .dealt = "T"},
    .examples = {.random = random_scales, .shaped = shaped_scales},
};

}  // namespace plumb::bounds
