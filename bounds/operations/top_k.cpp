// top_k: which experts take each token: those of its k largest logits
//
//   inputs   x (T, E)                              outputs   ids (T, k), by falling logit; of equal
//                                                            ones the lower id first
//   attributes   k: so many experts a token, at most E
// expert_count: how many copies each expert takes
//   inputs   ids (T, k)                            outputs   n (E, 1)
//   attributes   experts: E
//
//   evaluate   comparisons and whole numbers below 2^24: exact. How near a choice was to another is
//              the router's margin: bounds/operations/router.hpp.
#include <numeric>

#include "bounds/operations/routing.hpp"
#include "bounds/tolerance.hpp"

namespace plumb {
namespace {

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
    const T* logits = x.row(t);
    std::ranges::stable_sort(order, [&](auto a, auto b) { return logits[b] < logits[a]; });
    for (std::size_t j = 0; j < k; ++j) ids(t, j) = static_cast<T>(static_cast<double>(order[j]));
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

extern const Operation top_k{"top_k", chosen<float>, chosen<double>, chosen<Truth>,
                             tolerance_by<chosen<Near>, chosen<Moment>>};
extern const Operation expert_count{"expert_count", counted<float>, counted<double>, counted<Truth>,
                                    tolerance_by<counted<Near>, counted<Moment>>};

}  // namespace plumb
