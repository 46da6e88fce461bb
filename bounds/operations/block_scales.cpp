// block_scales: one scale for each block of a tensor, from its largest finite magnitude
//
//   inputs       x (N, M), [ids (T, k)]
//   outputs      s (blocks down, blocks along) and, of nested scales, t (1, 1)
//   attributes   rows, cols (of a block), rule (number of a ScaleRule), sliced_rows, [experts]
//   evaluate     `output` is the format of the elements that are to be scaled. Blocks lie as
//                bounds/operations/block_grid.hpp says.
//   forms        as_written, as the rule says: 0, of the same x all get the same bits.
//                other_convention, of nested rules: a scale may go to either neighbour where its
//                ratio is near a tie, and be lifted to the smallest scale.
//     v of a block is r = 448 amax / tensor amax in at most 4 FP32 roundings (of reciprocals,
//     products, quotients), t is tensor amax / (448 largest) in at most 2, and s = E4M3(v) t in
//     one: with E4M3 rounded monotonically
//       E4M3(r (1 - 5 u)) t (1 - 5 u) <= s <= max(E4M3(r (1 + 5 u)), 2^-6) t (1 + 5 u),
//     2^-6 only if r is below it (the smallest scale is 0, 2^-9 or 2^-6). A block of zeros has 0,
//     1 or the smallest one. Of a tensor below 2^-100 t may leave FP32's normal numbers; all
//       conventions then have s <= 448 2^-100.
#include <algorithm>
#include <cmath>

#include "bounds/operations/block_grid.hpp"
#include "bounds/tolerance.hpp"
#include "number/rounding.hpp"

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

double largest_of(const Matrix<double>& amax) {
  double all = 0;
  for (const double size : amax.values) all = std::max(all, size);
  return all;
}

template <class T>
std::vector<Matrix<T>> scales_by(ScaleRule rule, const Call<T>& call) {
  const Matrix<double> amax = largest_magnitudes(call[0], grid_of(call, 1));
  const double all = largest_of(amax);
  Matrix<T> s(amax.rows, amax.cols);
  for (std::size_t b = 0; b < s.size(); ++b) {
    const double scale = block_scale(amax.values[b], rule, call.how.output, all);
    s.values[b] = static_cast<T>(static_cast<float>(scale));
  }
  std::vector<Matrix<T>> outputs = as_outputs(std::move(s));
  const double t = is_nested(rule) ? nested_scale(all, rule, call.how.output) : 1;
  if (is_nested(rule)) outputs.emplace_back(1, 1, static_cast<T>(t));
  return outputs;
}

template <class T>
std::vector<Matrix<T>> scales(const Call<T>& call) {
  return scales_by(static_cast<ScaleRule>(call.count("rule")), call);
}

constexpr List<Form> conventions{{"as_written"}, {"other_convention"}};

std::vector<Matrix<float>> scales_of_form(const Call<float>& call) {
  const auto rule = static_cast<ScaleRule>(call.count("rule"));
  if (call.form == 0 || !is_nested(rule)) return scales_by(rule, call);
  return scales_by(rule == ScaleRule::nested ? ScaleRule::nested_reciprocal : ScaleRule::nested,
                   call);
}

constexpr double near = 5 * 0x1p-24, smallest_scale = 0x1p-6, smallest_magnitude = 0x1p-100;

// How far a block's scale `own` may be from that of another convention; `all` is the tensor's
// largest magnitude.
double far_from(double own, double amax, double all, const Format& element) {
  const double most = 448 * smallest_magnitude;
  const double of_zeros = amax == 0 ? std::fabs(1 - own) : 0;
  if (all < smallest_magnitude) return std::max(own, of_zeros) + most;
  const double t = all / (448 * element.largest()), ratio = 448 * amax / all;
  const auto steps = [](double v) { return round_to(v, e4m3fn, {.saturate = true}); };
  const double up =
      std::max(steps(ratio * (1 + near)), ratio <= smallest_scale ? smallest_scale : 0);
  const double off =
      std::max(up * t * (1 + near) - own, own - steps(ratio * (1 - near)) * t * (1 - near));
  return std::max(off, of_zeros) + 0x1p-126;
}

// All of a bound is the convention's.
void explain(Tolerance& tolerance, const ToleranceCall& call) {
  for (std::size_t o = 0; o < tolerance.bound.size(); ++o) {
    const auto& bound = tolerance.bound[o].values;
    if (bound.empty()) continue;
    const bool asked = call.explained && call.explained->output == o;
    tolerance.terms[o] = {
        {"convention", "every scale that an order of its FP32 steps may reach",
         asked ? bound[call.explained->element] : *std::ranges::max_element(bound)}};
  }
}

Outcome<Tolerance> tolerance(const ToleranceCall& call) {
  const Outcome<Tolerance> promised =
      tolerance_by<scales<RunningError>, scales<ErrorMoments>>(call);
  if (call.form == 0 || !promised || !is_nested(static_cast<ScaleRule>(call.count("rule")))) {
    return promised;
  }
  if (call.mode == Mode::moments) {
    return Refusal{Why::unsupported, "moments are derived for the promised convention only"};
  }
  ExactRoundings none;
  const Matrix<double> amax = largest_magnitudes(
      call[0], grid_of(Call<double>{call.inputs, call.attributes, call.how, none}, 1));
  const double all = largest_of(amax);
  Tolerance wide = *promised;
  for (std::size_t b = 0; b < amax.size(); ++b) {
    wide.bound[0].values[b] = term<"block_scales.convention">(
        far_from(call.values[0].values[b], amax.values[b], all, call.how.output));
  }
  const double t = call.values[1].values[0];
  wide.bound[1].values[0] = term<"block_scales.tensor">(near * t + 2 * smallest_magnitude);
  explain(wide, call);
  return wide;
}

}  // namespace

extern const Operation block_scales{
    .id = "block_scales",
    .evaluate = scales_of_form,
    .value = scales<double>,
    .truth = scales<BigFloat>,
    .tolerance = tolerance,
    .sums = SumOrder::none,
    .traits = {.makes_scales = true, .scales_output = true, .shaped_by_parts = true, .exact = true},
    .schema = {.inputs = {where({"x", "T", "M"}, "experts", "T k", "M"),
                          given({"ids", "T", "k"}, "experts")},
               .outputs = {{"s", "*", "*"}, given({"t", "1", "1"}, "rule", 4)},
               .attributes = {count("rows"), count("cols"), count("rule", 0, 5),
                              flag("sliced_rows"), or_else(count("experts"))},
               .dealt = "T"},
    .examples = {.random = random_scales, .shaped = shaped_scales},
    .forms = conventions,
};

}  // namespace plumb::bounds
