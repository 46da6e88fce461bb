#include "bounds/operations/product_of_part.hpp"

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "bounds/multiply.hpp"
#include "bounds/operations/gemm.hpp"
#include "number/philox.hpp"
#include "number/shuffle.hpp"

namespace plumb::bounds {
namespace {

std::vector<std::size_t> drawn_order(std::size_t n, std::uint64_t key) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t(0));
  shuffle(std::span(order), [&](std::size_t left) {
    return static_cast<std::size_t>(uniform(key, left) * static_cast<double>(left));
  });
  return order;
}

template <class T>
Matrix<T> multiplied(View<T> a, View<T> b, std::size_t chain) {
  if constexpr (std::is_same_v<T, float>) {
    std::optional<Tensor> made;
    if (multiply_in_force != nullptr) made = (*multiply_in_force)(a, b);
    if (made) return std::move(*made);
  }
  return product(a, b, chain);
}

}  // namespace

template <class T>
Matrix<T> product_of_part(View<T> a, View<T> b, const Call<T>& call, std::size_t part) {
  const std::size_t chain = chain_of(call.attributes);
  if (call.how.order_key == 0) return multiplied(a, b, chain);
  const auto order = drawn_order(a.cols, key_of(call.how.order_key, std::to_string(part)));
  Matrix<T> left(a.cols, a.rows, to_be_written), right(b.rows, b.cols, to_be_written);
  for (std::size_t k = 0; k < order.size(); ++k) {
    for (std::size_t i = 0; i < a.rows; ++i) left(k, i) = a(i, order[k]);
    for (std::size_t j = 0; j < b.cols; ++j) right(k, j) = b(order[k], j);
  }
  return multiplied(view(left, true), view(right), chain);
}
template Matrix<float> product_of_part(View<float>, View<float>, const Call<float>&, std::size_t);
template Matrix<double> product_of_part(View<double>, View<double>, const Call<double>&,
                                        std::size_t);
template Matrix<BigFloat> product_of_part(View<BigFloat>, View<BigFloat>, const Call<BigFloat>&,
                                          std::size_t);

}  // namespace plumb::bounds
