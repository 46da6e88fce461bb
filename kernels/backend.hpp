// kernels/backend.hpp: the list of ways to multiply matrices that the model can run on.
//
//   C = op(A) op(B)  or  C += op(A) op(B), FP32 accumulation
//
// `slice_invariant` says whether an element's bits depend only on its row, its column and K. If
// not, products of different slices differ and a run on this backend cannot be promised bit by bit.
//
// TESTED   tests/kernels/gemm_test.cpp (random slices; against the exact result with our own bound)
#pragma once

#include <span>
#include <string_view>

#include "kernels/sees.hpp"
#include "number/product.hpp"

namespace plumb::kernels {

struct Backend {
  std::string_view name;
  std::string_view description;
  bool slice_invariant;
  bool (*usable_here)();
  void (*gemm)(View<float> a, View<float> b, float* c, std::size_t c_stride, bool accumulate);
};

std::span<const Backend* const> all_backends();
// Throws Failure on an unknown or unusable backend, listing the usable.
const Backend& find_backend(std::string_view name);

}  // namespace plumb::kernels
