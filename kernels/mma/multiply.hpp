// kernels/mma/multiply.hpp: products as a backend with matrix units makes them: of finite numbers that
// are all BF16's by the unit, of others not at all.
//
// TESTED   tests/kernels/mma_any_test.cpp, tests/experiments/truncating_test.cpp
#pragma once

#include <optional>

#include "kernels/sees.hpp"
#include "number/mma.hpp"
#include "number/product.hpp"

namespace plumb::kernels {

// a (M, K), b (K, N). `unit`: one for BF16. Costs what mma_product does.
std::optional<Tensor> product_of_bf16(View<float> a, View<float> b, const Mma& unit);

}  // namespace plumb::kernels
