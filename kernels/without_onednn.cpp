// Stands in for kernels/onednn/ where oneDNN was not found.
#include "kernels/backend.hpp"
#include "number/outcome.hpp"

namespace plumb::kernels {

extern const Backend onednn_backend{
    .name = "onednn",
    .description = "oneDNN, which this program was built without (install libdnnl-dev)",
    .slice_invariant = false,
    .usable_here = [] { return false; },
    .gemm =
        [](View<float>, View<float>, float*, std::size_t, bool) {
          throw Failure(
              "this program was built without oneDNN; install libdnnl-dev, configure again");
        },
};

}  // namespace plumb::kernels
