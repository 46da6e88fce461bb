#include "probe/machine_products.hpp"

#include "kernels/mma/multiply.hpp"

namespace plumb::probe {

std::optional<Multiply> products_on(const Machine& machine) {
  const std::optional<Mma> unit = machine.mma(bf16);
  if (!unit || unit->any_steps) return {};
  return [unit = *unit](View<float> a, View<float> b) { return product_of_bf16(a, b, unit); };
}

}  // namespace plumb::probe
