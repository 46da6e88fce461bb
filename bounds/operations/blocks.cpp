// block_scales: one scale for each block of a tensor, from its largest finite magnitude
//
//   inputs       x (N, M), [ids (T, k)]
//   outputs      s (blocks down, blocks along) and, of nested scales, t (1, 1)
//   attributes   rows, cols (of a block), rule (number of a ScaleRule), sliced_rows, [experts]
//   evaluate     `output` is the format of the elements that are to be scaled. Blocks begin anew in
//                each of `parts` slices of the rows (sliced_rows 1) or of the columns (0), and of
//                rows that are dealt in each rank's, one after the other. With ids the rows are
//                those of dispatch, and blocks begin anew in each of deal.groups groups of experts,
//                there in each rank's rows.
//   tolerance    0: of the same x every correct evaluation gives the same bits.
//
// quantize_blocks: y = cast(x / s) s, the numbers that a tensor of scaled blocks holds
//
//   inputs       x (N, M), s, [ids]      y (N, M)
//   attributes   rows, cols, sliced_rows, experts as above; key (optional): rounded stochastically
//   evaluate     x / s in FP32, rounded to the output format, saturating; times s in FP32
//   tolerance    of y against x itself; a number that saturates is off by what it has beyond the
//                largest
#include <array>
#include <cmath>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/routing.hpp"
#include "bounds/tolerance.hpp"
#include "number/blocks.hpp"

namespace plumb::bounds {
namespace {

struct Grid {
  std::vector<std::size_t> order;       // of the rows
  std::vector<std::size_t> rows, cols;  // where blocks begin, of rows in that order, and the end
};

// The rows by group of experts, then by rank, and where their blocks begin.
template <class T>
Grid grid_of_groups(const Call<T>& call, const Matrix<T>& ids) {
  const std::size_t experts = call.count("experts"), size = call.count("rows");
  const auto groups = static_cast<std::size_t>(call.how.deal.groups);
  const Routing routing = routing_of(ids, experts);
  const int ranks = call.how.deal.ranks;
  // Blocks lie as promised in every draw: other cuts would make another number of blocks.
  const Parting tokens = parting(ids.rows, {ranks, fp32, fp32, {ranks, call.how.deal.sequence}});
  Grid grid{{}, {}, block_starts(call[0].cols, call.count("cols"), call.how.parts)};
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t end =
        g + 1 < groups ? routing.first[(g + 1) * experts / groups] : call[0].rows;
    const Slice rows{routing.first[g * experts / groups], end};
    const Parting of_ranks = parted_rows(routing, rows, tokens);
    const std::size_t before = grid.order.size();
    for (const std::size_t i : of_ranks.order) grid.order.push_back(rows.first + i);
    for (std::size_t r = 0; r + 1 < of_ranks.begins.size(); ++r) {
      for (std::size_t i = of_ranks.begins[r]; i < of_ranks.begins[r + 1]; i += size) {
        grid.rows.push_back(before + i);
      }
    }
  }
  grid.rows.push_back(grid.order.size());
  return grid;
}

// `before`: inputs before the ids, if there are some.
template <class T>
Grid grid_of(const Call<T>& call, std::size_t before) {
  if (call.inputs.size() > before) return grid_of_groups(call, call[before]);
  const bool by_rows = call.attribute("sliced_rows") != 0;
  const int parts = call.how.parts;
  const int of_rows = call.how.deal.ranks > 1 ? call.how.deal.ranks : by_rows ? parts : 1;
  return {dealt_rows(call[0].rows, call.how.deal),
          block_starts(call[0].rows, call.count("rows"), of_rows),
          block_starts(call[0].cols, call.count("cols"), by_rows ? 1 : parts)};
}

double held(float x) { return static_cast<double>(x); }
double held(double x) { return static_cast<double>(static_cast<float>(x)); }
double held(const Near& x) { return held(x.value); }
double held(const Moment& x) { return held(x.held()); }
double held(const Truth& x) { return held(static_cast<double>(x)); }

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
  std::vector<Matrix<T>> outputs = alone(std::move(s));
  if (nested) outputs.emplace_back(1, 1, static_cast<T>(t));
  return outputs;
}

// Calls f with each element and its scale.
template <class T, class F>
void for_each(Matrix<T>& y, const Call<T>& call, const F& f) {
  const Grid grid = grid_of(call, 2);
  for (std::size_t r = 0; r + 1 < grid.rows.size(); ++r) {
    for (std::size_t i = grid.rows[r]; i < grid.rows[r + 1]; ++i) {
      for (std::size_t c = 0; c + 1 < grid.cols.size(); ++c) {
        for (std::size_t j = grid.cols[c]; j < grid.cols[c + 1]; ++j)
          f(y(grid.order[i], j), call[1](r, c));
      }
    }
  }
}

template <class T>
std::vector<Matrix<T>> quantized(const Call<T>& call) {
  Matrix<T> y = call[0];
  for_each(y, call, [](T& x, const T& s) { x /= s; });
  call.roundings.round_as(y, call.how.output, {true, call.random_key()});
  for_each(y, call, [](T& x, const T& s) { x *= s; });
  return alone(std::move(y));
}

// Fills a call of block_scales.
void random_scales(RandomCall& c) {
  constexpr std::array parts{1, 2, 4};
  constexpr std::array elements{e4m3fn, e5m2, e2m1, e2m3};
  c.table();
  c.e.attributes = {{"rows", c.draw.between(1, 4)},
                    {"cols", c.draw.between(1, 20)},
                    {"rule", c.draw.between(0, 4)},
                    {"sliced_rows", c.draw.coin()}};
  c.e.how = {parts[c.draw.between(0, 2)], fp32, elements[c.draw.between(0, 3)]};
  const bool of_experts = c.draw.between(0, 3) == 0;
  const Matrix<double> ids = c.draw.whole(c.rows, 4);
  if (!of_experts) return;
  c.e.attributes["experts"] = 4;
  c.e.attributes["sliced_rows"] = 0;
  c.e.how.deal.groups = static_cast<int>(c.draw.between(1, 2));
  if (c.rows % 4 == 0 && c.draw.coin()) {
    c.e.how.deal.ranks = 2;
    c.e.how.deal.sequence = static_cast<int>(c.rows);
  }
  c.add(ids);
}
// Adds the scales of a call of block_scales, as its second input.
void add_scales(Example& e) {
  e.inputs.insert(e.inputs.begin() + 1,
                  value_of({"block_scales", e.inputs, e.attributes, e.how})[0]);
}
void random_quantized(RandomCall& c) {
  random_scales(c);
  add_scales(c.e);
  if (c.draw.coin()) c.e.attributes["key"] = c.whole(0, 1U << 30);
}

// As MXFP8: 32 numbers and a power of two.
void shaped_scales(Maker& m) {
  m.table();
  m.e.attributes = {{"rows", 1},
                    {"cols", 32},
                    {"rule", static_cast<double>(ScaleRule::ceil)},
                    {"sliced_rows", 0}};
  m.e.how.output = e4m3fn;
}
void shaped_quantized(Maker& m) {
  shaped_scales(m);
  add_scales(m.e);
}

}  // namespace

extern const Operation block_scales{
    .id = "block_scales",
    .evaluate = scales<float>,
    .value = scales<double>,
    .truth = scales<Truth>,
    .tolerance = tolerance_by<scales<Near>, scales<Moment>>,
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
extern const Operation quantize_blocks{
    .id = "quantize_blocks",
    .evaluate = quantized<float>,
    .value = quantized<double>,
    .truth = quantized<Truth>,
    .tolerance = tolerance_by<quantized<Near>, quantized<Moment>>,
    .sums = SumOrder::none,
    .traits = {.short_copy = true, .scales_output = true},
    .schema = {.inputs = {where({"x", "T", "M"}, "experts", "T k", "M"),
                          {"s", "*", "*"},
                          given({"ids", "T", "k"}, "experts")},
               .outputs = {where({"y", "T", "M"}, "experts", "T k", "M")},
               .attributes = {count("rows"), count("cols"), flag("sliced_rows"),
                              or_else(count("experts")), or_else(key("key"))},
               .dealt = "T"},
    .examples = {.random = random_quantized, .shaped = shaped_quantized},
};

}  // namespace plumb::bounds
