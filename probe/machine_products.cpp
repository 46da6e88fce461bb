#include "probe/machine_products.hpp"

#include "kernels/mma/multiply.hpp"
#include "kernels/ordered/product.hpp"

namespace plumb::probe {

namespace {

// The order of products that a probe found, if chains (number/product.hpp) do not have it.
std::optional<Order> found_order(const Machine& machine, std::size_t terms) {
  const Fact* fma = machine.fact("fma");
  if (machine.fact("order_gemm") == nullptr || !machine.rounds_to_nearest()) return {};
  if (fma == nullptr || fma->value != "as_written") return {};
  std::optional<Order> order = machine.product_order(terms);
  const bool is_chain = order && order->kind == Order::Kind::sequential && !order->swapped;
  return is_chain ? std::nullopt : order;
}

std::optional<Tensor> in_order(View<float> a, View<float> b, const Machine& machine) {
  const std::optional<Order> order = found_order(machine, a.cols);
  if (!order || !are_bf16(a) || !are_bf16(b)) return {};
  return ordered_product(a, b, *order);
}

}  // namespace

std::optional<Multiply> products_on(const Machine& machine) {
  const std::optional<Mma> unit = machine.mma(bf16);
  if (!unit && found_order(machine, 1)) {
    return [machine](View<float> a, View<float> b) { return in_order(a, b, machine); };
  }
  if (!unit || unit->any_steps) return {};
  return [unit = *unit](View<float> a, View<float> b) { return product_of_bf16(a, b, unit); };
}

}  // namespace plumb::probe
