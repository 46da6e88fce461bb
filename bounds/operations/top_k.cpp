// top_k: which experts take each token: those of its k largest logits
//
//   inputs       x (T, E), [b (E, 1)]: b is added to the logits, in FP32, for the choice alone
//   outputs      ids (T, k), by falling logit; of equal ones the lower id first
//   attributes   k: so many experts a token, at most E
// within_capacity: an expert takes its first copies by the order of the tokens, others are dropped
//   inputs       ids (T, k)                         outputs   ids (T, k), E where a copy is dropped
//   attributes   experts: E; most: copies that an expert takes at most
// expert_count: how many copies each expert takes
//   inputs       ids (T, k)                            outputs   n (E, 1)
//   attributes   experts: E
//
//   evaluate     comparisons and whole numbers below 2^24: exact. How near a choice was to another
//                is the router's margin: bounds/operations/router.hpp.
//
// SOURCES  bounds/SOURCES.md [Switch]: capacity
#include <numeric>

#include "bounds/examples/routed.hpp"
#include "bounds/operations/routing.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

// The number that FP32 holds where an evaluation runs; the same for every type, so that all choose
// alike.
double held(float x) { return static_cast<double>(x); }
double held(double x) { return static_cast<double>(static_cast<float>(x)); }
double held(const Near& x) { return held(x.value); }
double held(const Moment& x) { return held(x.held()); }
double held(const Truth& x) { return held(static_cast<double>(x)); }

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
  return alone(std::move(ids));
}

template <class T>
std::vector<Matrix<T>> within(const Call<T>& call) {
  const std::size_t experts = call.count("experts"), most = call.count("most");
  const Routing routing = routing_of(call[0], experts);
  Matrix<T> ids = call[0];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t e = expert_of(ids.values[i], experts + 1);
    const bool fits = e == experts || routing.rows[i] < routing.first[e] + most;
    if (!fits) ids.values[i] = static_cast<T>(static_cast<double>(experts));
  }
  return alone(std::move(ids));
}

template <class T>
std::vector<Matrix<T>> counted(const Call<T>& call) {
  const Routing routing = routing_of(call[0], call.count("experts"));
  Matrix<T> n(call.count("experts"), 1);
  for (std::size_t e = 0; e < n.rows; ++e) {
    n.values[e] = static_cast<T>(static_cast<double>(routing.first[e + 1] - routing.first[e]));
  }
  return alone(std::move(n));
}

}  // namespace

extern const Operation top_k{
    .id = "top_k",
    .evaluate = chosen<float>,
    .value = chosen<double>,
    .truth = chosen<Truth>,
    .tolerance = tolerance_by<chosen<Near>, chosen<Moment>>,
    .sums = SumOrder::none,
    .traits = {.choice = true, .exact = true},
    .schema = {.inputs = {{"x", "T", "E"}, optional({"b", "E", "1"})},
               .outputs = {{"ids", "T", "k"}},
               .attributes = {count("k")}},
    .examples = {.random = [](RandomCall& c) { routed(c, {.inputs = "lv", .as_many = true}); },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "lv", .as_many = true}); },
                 .usual = "256x64"},
};
extern const Operation within_capacity{
    .id = "within_capacity",
    .evaluate = within<float>,
    .value = within<double>,
    .truth = within<Truth>,
    .tolerance = tolerance_by<within<Near>, within<Moment>>,
    .sums = SumOrder::none,
    .traits = {.exact = true},
    .schema = {.inputs = {{"ids", "T", "k"}},
               .outputs = {{"ids", "T", "k"}},
               .attributes = {count("experts"), count("most", 0)}},
    .examples = {.random = [](RandomCall& c) { routed(c, {.inputs = "i", .drops = false}); },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "i", .drops = false}); },
                 .usual = "256x64"},
};
extern const Operation expert_count{
    .id = "expert_count",
    .evaluate = counted<float>,
    .value = counted<double>,
    .truth = counted<Truth>,
    .tolerance = tolerance_by<counted<Near>, counted<Moment>>,
    .sums = SumOrder::none,
    .traits = {.exact = true},
    .schema = {.inputs = {{"ids", "T", "k"}},
               .outputs = {{"n", "experts", "1"}},
               .attributes = {count("experts")}},
    .examples = {.random = [](RandomCall& c) { routed(c, {.inputs = "i"}); },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "i"}); },
                 .usual = "256x64"},
};

}  // namespace plumb::bounds
