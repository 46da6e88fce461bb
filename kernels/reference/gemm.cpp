// One chain of fused multiply-adds per element, k ascending: what an evaluation of the promise in
// FP32 does, by the same lines.
#include "bounds/number/product.hpp"
#include "kernels/backend.hpp"

namespace plumb {

extern const Backend reference_backend{
    .name = "reference",
    .description = "plain loops, one chain of FP32 fused multiply-adds per element",
    .slice_invariant = true,
    .usable_here = [] { return true; },
    .gemm = multiply<float>,
};

}  // namespace plumb
