// sum: y = x_0 + x_1 + ... over whole tensors, as gradients are accumulated over micro-batches
//
//   inputs     x_0 ... x_{n-1}, each (N, M)        y (N, M)
//   evaluate   part p takes the inputs p, p + parts, p + 2 parts ... in this order, in FP32; parts
//              are combined on the wire. Asked for another order, each part adds its own so. In a draw (tokens.key) each element deals its terms by
//              itself: four of them can be paired in three ways only (twins.md M5).
#include <algorithm>
#include <numeric>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/sum.hpp"
#include "bounds/tolerance.hpp"
#include "number/philox.hpp"
#include "number/shuffle.hpp"

namespace plumb::bounds {
namespace {

// Orders of n inputs in which `ranks` equal slices are the parts. Input 0 stays the first, as in
// every run; input 1 does not follow it, unless there is one part, as with ranks it never does.
std::vector<std::vector<std::size_t>> orders(std::size_t n, std::size_t ranks, std::uint64_t key) {
  constexpr std::size_t enough = 64;
  std::vector<std::vector<std::size_t>> all(enough, std::vector<std::size_t>(n));
  std::uint64_t drawn = 0;
  for (std::vector<std::size_t>& order : all) {
    std::iota(order.begin(), order.end(), std::size_t(0));
    shuffle(std::span(order).subspan(1), [&](std::size_t left) {
      return static_cast<std::size_t>(uniform(key, drawn++) * static_cast<double>(left));
    });
    if (n > ranks && order[1] == 1) std::swap(order[1], order[n - 1]);
  }
  return all;
}

// The parts, in which each element deals its terms by itself.
template <class T>
void add_dealt(const Call<T>& call, std::vector<Matrix<T>>& parts) {
  const std::size_t n = call.inputs.size(), each = n / parts.size();
  const auto all = orders(n, parts.size(), call.how.tokens.key);
  for (std::size_t e = 0; e < parts[0].size(); ++e) {
    const auto& order = all[static_cast<std::size_t>(uniform(call.how.tokens.key + 1, e) *
                                                     static_cast<double>(all.size()))];
    for (std::size_t i = 0; i < n; ++i) {
      parts[i / each].values[e] += call[order[i]].values[e];
    }
  }
}

// The parts, each the sum of its inputs in the order that the call asks for.
template <class T>
void add_as_asked(const Call<T>& call, std::vector<Matrix<T>>& parts) {
  const std::size_t ranks = parts.size();
  for (std::size_t p = 0; p < ranks; ++p) {
    SumTable<T> sums(call[0].rows, call[0].cols, call.sums);
    for (std::size_t i = p; i < call.inputs.size(); i += ranks) {
      const Matrix<T>& x = call[i];
      for (std::size_t t = 0; t < x.rows; ++t) {
        for (std::size_t j = 0; j < x.cols; ++j) sums.add(t, j, x(t, j));
      }
    }
    parts[p] = std::move(sums).totals();
  }
}

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  const std::size_t n = call.inputs.size();
  const auto ranks = static_cast<std::size_t>(call.how.parts);
  std::vector<Matrix<T>> parts(ranks, Matrix<T>(call[0].rows, call[0].cols));
  if (call.sums.way != SumsIn::Way::promised) {
    add_as_asked(call, parts);
  } else if (call.how.tokens.key != 0 && n % ranks == 0 && n > 2) {
    add_dealt(call, parts);
  } else {
    for (std::size_t i = 0; i < n; ++i) {
      Matrix<T>& part = parts[i % ranks];
      for (std::size_t e = 0; e < part.size(); ++e) part.values[e] += call[i].values[e];
    }
  }
  Matrix<T> y = sum_in_rank_order(std::move(parts), call.how, call.roundings);
  call.roundings.round(y, call.how.output);
  return as_outputs(std::move(y));
}

// Each rank has an input.
void random(RandomCall& c) {
  for (std::size_t i = 4 * c.draw.between(1, 2); i > 0; --i) c.table();
}

}  // namespace

extern const Operation sum{
    .id = "sum",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>,
    .sums = SumOrder::chain,
    .traits = {.adds_inputs = true},
    .schema = {.inputs = {repeated({"x", "N", "M"})}, .outputs = {{"y", "N", "M"}}},
    .examples = {.random = random, .shaped = two_tables},
    .sums_as_asked = true,
};

}  // namespace plumb::bounds
