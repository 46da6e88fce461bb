// top_k: which experts take each token: those of its k largest logits
//
//   inputs       x (T, E), [b (E, 1)]: b is added to the logits, in FP32, for the choice alone
//   outputs      ids (T, k), by falling logit; of equal ones the lower id first
//   attributes   k: so many experts a token, at most E
//   evaluate     comparisons: exact. How near a choice was to another is the router's margin:
//                bounds/operations/router.hpp.
#include <numeric>
#include <stdexcept>
#include <string>

#include "bounds/examples/routed.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

// The number that FP32 holds where an evaluation runs; the same for every type, so that all choose
// alike.
double held(float x) { return static_cast<double>(x); }

double held(double x) { return static_cast<double>(static_cast<float>(x)); }

double held(const RunningError& x) { return held(x.value); }

double held(const ErrorMoments& x) { return held(x.held()); }

double held(const BigFloat& x) { return held(static_cast<double>(x)); }

template <class T>
std::vector<Matrix<T>> chosen(const Call<T>& call) {
  const Matrix<T>& x = call[0];
  const std::size_t k = call.count("k");
  if (k < 1 || k > x.cols) {
    throw std::invalid_argument("top_k: " + std::to_string(k) + " of " + std::to_string(x.cols) +
                                " experts cannot be chosen");
  }
  Matrix<T> ids(x.rows, k);
  std::vector<std::size_t> order(x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    std::iota(order.begin(), order.end(), 0);
    std::vector<double> ratings(x.cols);
    for (std::size_t e = 0; e < x.cols; ++e) {
      ratings[e] = held(x(t, e));
      if (call.inputs.size() > 1) ratings[e] = held(ratings[e] + held(call[1].values[e]));
    }
    std::ranges::stable_sort(order, [&](auto a, auto b) { return ratings[b] < ratings[a]; });
    for (std::size_t j = 0; j < k; ++j) ids(t, j) = static_cast<T>(static_cast<double>(order[j]));
  }
  return as_outputs(std::move(ids));
}

}  // namespace

extern const Operation top_k{
    .id = "top_k",
    .evaluate = chosen<float>,
    .value = chosen<double>,
    .truth = chosen<BigFloat>,
    .tolerance = tolerance_by<chosen<RunningError>, chosen<ErrorMoments>>,
    .sums = SumOrder::none,
    .traits = {.choice = true, .exact = true},
    .schema = {.inputs = {{"x", "T", "E"}, optional({"b", "E", "1"})},
               .outputs = {{"ids", "T", "k"}},
               .attributes = {count("k")}},
    .examples = {.random = [](RandomCall& c) { routed(c, {.inputs = "lv", .as_many = true}); },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "lv", .as_many = true}); },
                 .usual = "256x64"},
};

}  // namespace plumb::bounds
