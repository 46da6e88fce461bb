// quantize_blocks: y = cast(x / s) s, the numbers that a tensor of scaled blocks holds
//
//   inputs       x (N, M), s, [ids]      y (N, M)
//   attributes   rows, cols, sliced_rows, experts as block_scales has them; key (optional): rounded
//                stochastically; by_reciprocal (default 0): multiplied by 1 / s, not divided by s
//   evaluate     x / s, or x (1 / s), in FP32, rounded to the output format, saturating; times s in
//                FP32. By reciprocals s may be 0: then 1 / s is the largest number, and y is 0.
//   tolerance    of y against x itself; a number that saturates is off by what it has beyond the
//                largest, and one whose scale is 0 by all it has
#include <algorithm>

#include "bounds/operations/block_grid.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

// Calls f with each element, its scale and what was given for it.
template <class T, class F>
void for_each(Matrix<T>& y, const Call<T>& call, const F& f) {
  const Grid grid = grid_of(call, 2);
  if (call[1].rows + 1 != grid.rows.size() || call[1].cols + 1 != grid.cols.size()) {
    throw std::invalid_argument("quantize_blocks: there is not one scale for each block");
  }
  for (std::size_t r = 0; r + 1 < grid.rows.size(); ++r) {
    for (std::size_t i = grid.rows[r]; i < grid.rows[r + 1]; ++i) {
      for (std::size_t c = 0; c + 1 < grid.cols.size(); ++c) {
        for (std::size_t j = grid.cols[c]; j < grid.cols[c + 1]; ++j)
          f(y(grid.order[i], j), call[1](r, c), call[0](grid.order[i], j));
      }
    }
  }
}

template <class T>
bool is_zero(const T& s) {
  return !(s < T(0)) && !(T(0) < s);
}

template <class T>
void into_scale(T& x, const T& s, bool by_reciprocal) {
  if (!by_reciprocal) {
    x /= s;
  } else if (!is_zero(s)) {
    x *= T(1) / s;
  }
}
void into_scale(float& x, float s, bool by_reciprocal) {
  x = in_scale(x, s, by_reciprocal ? ScaleRule::nested_reciprocal : ScaleRule::nested);
}

// What an element becomes whose scale is 0: the same mathematics is x, and FP32 has 0.
double lost(double x) { return x; }
BigFloat lost(const BigFloat& x) { return x; }
float lost(float x) { return 0 * x; }
RunningError lost(RunningError x) {
  x.err_surely(term<"quantize_blocks.lost">(x.most()), Share::stored);
  return x;
}
ErrorMoments lost(const ErrorMoments& x) { return ErrorMoments::of(x.value, -x.value, 0); }

template <class T>
std::vector<Matrix<T>> quantized(const Call<T>& call) {
  Matrix<T> y = call[0];
  const bool by_reciprocal = call.attribute("by_reciprocal", 0) != 0;
  for_each(y, call, [&](T& x, const T& s, const T&) { into_scale(x, s, by_reciprocal); });
  call.roundings.round_as(y, call.how.output, {true, call.random_key()});
  for_each(y, call, [&](T& x, const T& s, const T& given) {
    x = by_reciprocal && is_zero(s) ? lost(given) : x * s;
  });
  return as_outputs(std::move(y));
}

// Adds the scales of a call of block_scales, as its second input.
void add_scales(Example& e) {
  e.inputs.push_back(value_of({"block_scales", e.inputs, e.attributes, e.how})[0]);
  std::rotate(e.inputs.begin() + 1, e.inputs.end() - 1, e.inputs.end());
}

void random_quantized(RandomCall& c) {
  random_scales(c);
  add_scales(c.e);
  if (c.draw.coin()) c.e.attributes["key"] = c.whole(0, 1U << 30);
  if (c.e.attributes["rule"] == 5) c.e.attributes["by_reciprocal"] = 1;
}

void shaped_quantized(Maker& m) {
  shaped_scales(m);
  add_scales(m.e);
}

}  // namespace

extern const Operation quantize_blocks{
    .id = "quantize_blocks",
    .evaluate = quantized<float>,
    .value = quantized<double>,
    .truth = quantized<BigFloat>,
    .tolerance = tolerance_by<quantized<RunningError>, quantized<ErrorMoments>>,
    .sums = SumOrder::none,
    .traits = {.short_copy = true, .scales_output = true},
    .schema = {.inputs = {where({"x", "T", "M"}, "experts", "T k", "M"),
                          {"s", "*", "*"},
                          given({"ids", "T", "k"}, "experts")},
               .outputs = {where({"y", "T", "M"}, "experts", "T k", "M")},
               .attributes = {count("rows"), count("cols"), flag("sliced_rows"),
                              or_else(count("experts")), or_else(key("key")),
                              or_else(flag("by_reciprocal"))},
               .dealt = "T"},
    .examples = {.random = random_quantized, .shaped = shaped_quantized},
};

}  // namespace plumb::bounds
