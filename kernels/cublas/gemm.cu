// cuBLAS's products on a GPU: on its matrix units where all numbers are BF16's, otherwise in FP32
// (no TF32). Tensors travel to the device and back for each product: what is judged here is how it
// adds, not how fast. The order of sums depends on shape and device.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cuda/cast_fp8.hpp"
#include "number/outcome.hpp"

namespace plumb::kernels {
namespace {

void must(cudaError_t done) {
  if (done == cudaSuccess) return;
  throw Failure(std::string("the GPU failed (") + cudaGetErrorString(done) +
                "); choose another backend");
}

void must(cublasStatus_t done) {
  if (done == CUBLAS_STATUS_SUCCESS) return;
  throw Failure(std::string("cuBLAS failed (status ") + std::to_string(static_cast<int>(done)) +
                "); choose another backend");
}

// Memory of the device.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes) { must(cudaMalloc(&data_, bytes)); }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

// Loads the library when it is first needed: it is larger than all else together. The one that this
// was built beside, or on another machine the one that the loader knows.
void* library() {
  static const std::string name = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
  static void* const there = dlopen(PLUMB_CUBLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  static void* const known = there != nullptr ? there : dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (known != nullptr) return known;
  throw Failure("cannot load cuBLAS: there is no " PLUMB_CUBLAS_LIBRARY
                ", and the loader finds no " +
                name + "; choose another backend");
}

template <class Function>
Function* found(const char* name) {
  void* const function = dlsym(library(), name);
  if (function != nullptr) return reinterpret_cast<Function*>(function);
  throw Failure(std::string("cuBLAS has no ") + name + "; choose another backend");
}

class Handle {
 public:
  Handle() {
    must(found<decltype(cublasCreate_v2)>("cublasCreate_v2")(&handle_));
    // FP32 stays FP32.
    must(found<decltype(cublasSetMathMode)>("cublasSetMathMode")(handle_, CUBLAS_DEFAULT_MATH));
  }
  ~Handle() { found<decltype(cublasDestroy_v2)>("cublasDestroy_v2")(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator cublasHandle_t() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

// cuBLAS has two functions of that name; this is the one with a compute type.
using GemmEx = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                              const void*, const void*, cudaDataType, int, const void*,
                              cudaDataType, int, const void*, void*, cudaDataType, int,
                              cublasComputeType_t, cublasGemmAlgo_t);

// Sizes that the matrix units take as they are: of others cuBLAS has kernels that step otherwise.
constexpr std::size_t side = 16;
std::size_t padded(std::size_t n) { return (n + side - 1) / side * side; }

// The numbers of a view in its own order, line by line, with zeros behind each and below the last.
struct Lines {
  std::vector<float> values;
  std::size_t length;
  bool short_numbers = true;  // all are BF16's
};

Lines lines_of(const View<float>& v) {
  const std::size_t lines = v.transposed ? v.cols : v.rows, own = v.transposed ? v.rows : v.cols;
  Lines out{{}, padded(own)};
  out.values.resize(padded(lines) * out.length);
  for (std::size_t i = 0; i < lines; ++i) {
    for (std::size_t j = 0; j < own; ++j) {
      const float x = v.data[i * v.stride + j];
      out.short_numbers = out.short_numbers && (std::bit_cast<std::uint32_t>(x) & 0xffffU) == 0;
      out.values[i * out.length + j] = x;
    }
  }
  return out;
}

std::vector<std::uint16_t> halves_of(const std::vector<float>& values) {
  std::vector<std::uint16_t> halves;
  halves.reserve(values.size());
  for (const float x : values) {
    halves.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16));
  }
  return halves;
}

template <class T>
void put(const Buffer& to, const std::vector<T>& from) {
  must(cudaMemcpy(to.data(), from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
}

// cuBLAS counts columns first: C' = B' A'. c: all rows and columns, padded.
void multiply(const View<float>& a, const Lines& left, const View<float>& b, const Lines& right,
              std::vector<float>& c, bool accumulate) {
  thread_local const Handle handle;
  const bool in_bf16 = left.short_numbers && right.short_numbers;
  const std::size_t bytes = in_bf16 ? sizeof(std::uint16_t) : sizeof(float);
  const Buffer of_a(left.values.size() * bytes), of_b(right.values.size() * bytes);
  const Buffer of_c(c.size() * sizeof(float));
  if (in_bf16) {
    put(of_a, halves_of(left.values));
    put(of_b, halves_of(right.values));
  } else {
    put(of_a, left.values);
    put(of_b, right.values);
  }
  if (accumulate) put(of_c, c);
  const float one = 1, onto = accumulate ? 1 : 0;
  const cudaDataType type = in_bf16 ? CUDA_R_16BF : CUDA_R_32F;
  const auto n = static_cast<int>(padded(b.cols));
  static GemmEx* const gemm_ex = found<GemmEx>("cublasGemmEx");
  must(gemm_ex(handle, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
               a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n, static_cast<int>(padded(a.rows)),
               static_cast<int>(padded(a.cols)), &one, of_b.data(), type,
               static_cast<int>(right.length), of_a.data(), type, static_cast<int>(left.length),
               &onto, of_c.data(), CUDA_R_32F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  must(cudaMemcpy(c.data(), of_c.data(), c.size() * sizeof(float), cudaMemcpyDeviceToHost));
}

void gemm(View<float> a, View<float> b, float* c, std::size_t c_stride, bool accumulate) {
  if (a.rows == 0 || b.cols == 0) return;
  const std::size_t width = padded(b.cols);
  std::vector<float> out(padded(a.rows) * width);
  for (std::size_t i = 0; i < a.rows && accumulate; ++i) {
    std::copy_n(c + i * c_stride, b.cols, out.data() + i * width);
  }
  if (a.cols > 0) multiply(a, lines_of(a), b, lines_of(b), out, accumulate);
  for (std::size_t i = 0; i < a.rows; ++i) {
    std::copy_n(out.data() + i * width, b.cols, c + i * c_stride);
  }
}

}  // namespace

extern const Backend cublas_backend{
    .name = "cublas",
    .description =
        "cuBLAS on a GPU: BF16 numbers on its matrix units, others in FP32; the order of sums "
        "depends on shape and device",
    .slice_invariant = false,
    .usable_here = cuda_usable_here,
    .gemm = gemm,
};

}  // namespace plumb::kernels
