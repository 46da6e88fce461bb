// One chain of fused multiply-adds per element, k ascending: the very function that evaluates the
// promise in FP32. So a run on this backend equals the promise bit by bit, and an error in the
// function would be in both. tests/number/product_test.cpp holds it against a plain loop and
// MPFR, tests/kernels/gemm_test.cpp against the bound.
#include "kernels/backend.hpp"
#include "number/product.hpp"

namespace plumb::kernels {

extern const Backend reference_backend{
    .name = "reference",
    .description = "plain loops, one chain of FP32 fused multiply-adds per element",
    .slice_invariant = true,
    .usable_here = [] { return true; },
    .gemm = multiply<float>,
};

}  // namespace plumb::kernels
