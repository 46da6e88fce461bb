#include "kernels/cuda/cast_fp8.hpp"

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "number/outcome.hpp"

namespace plumb::kernels {
namespace {

// Encodes by integer arithmetic alone, so that no device cast decides what is judged elsewhere.
// `stored` bits of fraction, `bias` of the exponent, `top`: encoding of the largest number.
__device__ std::uint8_t encoded(float x, int stored, int bias, std::uint32_t top,
                                std::uint32_t nan) {
  const std::uint32_t bits = __float_as_uint(x);
  const std::uint32_t sign = (bits >> 31) << 7;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint8_t>(sign | nan);
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const int lowest = 1 - bias;  // exponent of the smallest normal number
  if (exponent < lowest - stored - 1) return static_cast<std::uint8_t>(sign);
  const std::uint32_t significand = (magnitude & 0x7fffffU) | (exponent > -127 ? 0x800000U : 0U);
  const int below = exponent < lowest ? lowest - exponent : 0;  // further bits a subnormal loses
  const int shift = 23 - stored + below;
  const std::uint32_t kept = significand >> shift;
  const std::uint32_t rest = significand & ((1U << shift) - 1U);
  const std::uint32_t half = 1U << (shift - 1);
  const std::uint32_t up = rest > half || (rest == half && (kept & 1U) != 0U) ? 1U : 0U;
  // A significand that rounds up to the next binade carries into the exponent by itself.
  const std::uint32_t base =
      below > 0 ? 0U : static_cast<std::uint32_t>(exponent + bias - 1) << stored;
  const std::uint32_t code = base + kept + up;
  return static_cast<std::uint8_t>(sign | (code > top ? top : code));
}

__global__ void cast_kernel(const float* in, std::uint8_t* out, std::size_t n, int stored, int bias,
                            std::uint32_t top, std::uint32_t nan) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = encoded(in[i], stored, bias, top, nan);
}

void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw Failure(std::string("the GPU failed to ") + what + ": " + cudaGetErrorString(error) +
                ". HINT: look at nvidia-smi; everything also works without a GPU");
}

template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t n) { must(cudaMalloc(&data_, n * sizeof(T)), "give memory"); }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  T* get() const { return static_cast<T*>(data_); }

 private:
  void* data_ = nullptr;
};

void cast(std::span<const float> in, std::span<std::uint8_t> out, int stored, int bias,
          std::uint32_t top, std::uint32_t nan) {
  if (in.size() != out.size()) throw std::invalid_argument("cast: in and out differ in length");
  if (!cuda_usable_here()) throw Failure("there is no GPU here. HINT: use round_to on the CPU");
  if (in.empty()) return;
  const OnDevice<float> from(in.size());
  const OnDevice<std::uint8_t> to(in.size());
  must(cudaMemcpy(from.get(), in.data(), in.size_bytes(), cudaMemcpyHostToDevice), "take values");
  const auto blocks = static_cast<unsigned>((in.size() + 255) / 256);
  cast_kernel<<<blocks, 256>>>(from.get(), to.get(), in.size(), stored, bias, top, nan);
  must(cudaGetLastError(), "start the kernel");
  must(cudaMemcpy(out.data(), to.get(), out.size(), cudaMemcpyDeviceToHost), "finish the kernel");
}

}  // namespace

bool cuda_usable_here() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

void cast_to_e4m3fn_on_cuda(std::span<const float> in, std::span<std::uint8_t> out) {
  cast(in, out, 3, 7, 0x7eU, 0x7fU);
}

void cast_to_e5m2_on_cuda(std::span<const float> in, std::span<std::uint8_t> out) {
  cast(in, out, 2, 15, 0x7bU, 0x7fU);
}

}  // namespace plumb::kernels
