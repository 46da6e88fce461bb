// Stands in for kernels/cublas/ where nvcc or cuBLAS was not found.
#include "kernels/backend.hpp"
#include "number/outcome.hpp"

namespace plumb::kernels {

extern const Backend cublas_backend{
    .name = "cublas",
    .description = "cuBLAS, which this program was built without",
    .slice_invariant = false,
    .usable_here = [] { return false; },
    .gemm =
        [](View<float>, View<float>, float*, std::size_t, bool) {
          throw Failure(
              "this program was built without cuBLAS; install the CUDA Toolkit, configure again");
        },
};

}  // namespace plumb::kernels
