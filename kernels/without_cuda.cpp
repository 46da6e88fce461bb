// Stands in for kernels/cuda/ where nvcc was not found.
#include "kernels/cuda/cast_fp8.hpp"
#include "number/outcome.hpp"

namespace plumb::kernels {

bool cuda_usable_here() { return false; }

void cast_to_e4m3fn_on_cuda(std::span<const float>, std::span<std::uint8_t>) {
  throw Failure("this program was built without CUDA. HINT: install nvcc and configure again");
}

void cast_to_e5m2_on_cuda(std::span<const float>, std::span<std::uint8_t>) {
  throw Failure("this program was built without CUDA. HINT: install nvcc and configure again");
}

}  // namespace plumb::kernels
