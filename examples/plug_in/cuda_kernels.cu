/* A plug-in for plumb calibrate: kernels of a GPU, as plain as they can be. Products of FP32 numbers,
 * or on the matrix units with -DNUMBERS_BF16, -DNUMBERS_FP16 or -DNUMBERS_TF32; sums of rows and columns
 * and a softmax by warps; functions and casts of CUDA's own.
 *
 *   nvcc -O2 -arch=native --fmad=false -Xcompiler -fPIC -shared -I PLUMB cuda_kernels.cu -o cuda_kernels.so
 *   plumb calibrate ./cuda_kernels.so -o cuda_kernels.json
 *
 * Whatever fails on the device, or where there is none, is told to plumb as a product that failed.
 */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <string.h>

#include "probe/plug_in.h"

#if defined(NUMBERS_BF16)
typedef __nv_bfloat16 Number;
typedef __nv_bfloat16 Fragment;
static const char* const format = "bf16";
#elif defined(NUMBERS_FP16)
typedef __half Number;
typedef __half Fragment;
static const char* const format = "fp16";
#elif defined(NUMBERS_TF32)
typedef float Number;
typedef nvcuda::wmma::precision::tf32 Fragment;
static const char* const format = "tf32";
#else
#undef NUMBERS_FP32
#define NUMBERS_FP32 1
typedef float Number;
static const char* const format = "fp32";
#endif

/* Memory of the device; whether all went well is asked at the end. */
template <class T>
class OnDevice {
 public:
  OnDevice(size_t n, bool& failed) : bytes_(n * sizeof(T)), failed_(failed) {
    failed_ = cudaMalloc(&data_, bytes_ + 1) != cudaSuccess || failed_;
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  T* get() const { return data_; }
  void fill(const T* from) {
    failed_ = failed_ || cudaMemcpy(data_, from, bytes_, cudaMemcpyHostToDevice) != cudaSuccess;
  }
  void read(T* to) const {
    failed_ = failed_ || cudaGetLastError() != cudaSuccess ||
              cudaMemcpy(to, data_, bytes_, cudaMemcpyDeviceToHost) != cudaSuccess;
  }

 private:
  T* data_ = NULL;
  size_t bytes_;
  bool& failed_;
};

static unsigned blocks(size_t n, size_t each) { return (unsigned)((n + each - 1) / each); }

#if defined(NUMBERS_FP32)
static const size_t side = 1;

/* One thread an element: a chain of fused multiply-adds. */
__global__ void multiply(const float* a, const float* b, float* c, size_t m, size_t k, size_t n) {
  const size_t at = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (at >= m * n) return;
  float sum = 0;
  for (size_t i = 0; i < k; ++i) sum = fmaf(a[at / n * k + i], b[i * n + at % n], sum);
  c[at] = sum;
}
static void start(const float* a, const float* b, float* c, size_t m, size_t k, size_t n) {
  multiply<<<blocks(m * n, 256), 256>>>(a, b, c, m, k, n);
}
#else
static const size_t side = 16; /* of a tile; sizes are multiples of it */

/* One warp a tile of C: steps of the matrix unit, one after the other. */
__global__ void multiply(const Number* a, const Number* b, float* c, size_t k, size_t n) {
  using namespace nvcuda::wmma;
  const int depth = sizeof(Number) == 4 ? 8 : 16;
  fragment<matrix_a, 16, 16, depth, Fragment, row_major> left;
  fragment<matrix_b, 16, 16, depth, Fragment, row_major> right;
  fragment<accumulator, 16, 16, depth, float> sum;
  fill_fragment(sum, 0);
  const size_t row = blockIdx.y * 16, column = blockIdx.x * 16;
  for (size_t i = 0; i < k; i += depth) {
    load_matrix_sync(left, a + row * k + i, (unsigned)k);
    load_matrix_sync(right, b + i * n + column, (unsigned)n);
    mma_sync(sum, left, right, sum);
  }
  store_matrix_sync(c + row * n + column, sum, (unsigned)n, mem_row_major);
}
static void start(const Number* a, const Number* b, float* c, size_t m, size_t k, size_t n) {
  multiply<<<dim3((unsigned)(n / 16), (unsigned)(m / 16)), 32>>>(a, b, c, k, n);
}
#endif

static size_t padded(size_t n) { return (n + side - 1) / side * side; }

/* A copy with zeros behind each row and below the last one. */
static Number* copied(const float* x, size_t rows, size_t columns) {
  Number* all = new Number[padded(rows) * padded(columns)]();
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      all[i * padded(columns) + j] =
          (Number)x[i * columns + j]; /* a number of the format already */
    }
  }
  return all;
}

static int gemm(const float* a, const float* b, float* c, size_t m, size_t k, size_t n) {
  const size_t rows = padded(m), depth = padded(k), columns = padded(n);
  Number *left = copied(a, m, k), *right = copied(b, k, n);
  float* all = new float[rows * columns];
  bool failed = false;
  {
    OnDevice<Number> of_a(rows * depth, failed), of_b(depth * columns, failed);
    OnDevice<float> of_c(rows * columns, failed);
    of_a.fill(left);
    of_b.fill(right);
    if (!failed) start(of_a.get(), of_b.get(), of_c.get(), rows, depth, columns);
    of_c.read(all);
  }
  for (size_t i = 0; i < m && !failed; ++i) {
    memcpy(c + i * n, all + i * columns, n * sizeof *c);
  }
  delete[] left;
  delete[] right;
  delete[] all;
  return failed;
}

static const char* const names[] = {"exp",    "log",       "erf",       "tanh",        "sqrt",
                                    "divide", "cast_bf16", "cast_fp16", "cast_e4m3fn", "cast_e5m2"};
static const int functions = sizeof names / sizeof *names;

__device__ float from_fp8(float x, __nv_fp8_interpretation_t kind) {
  const __nv_fp8_storage_t code = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, kind);
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, kind)));
}
__device__ float result(int which, float x, float y) {
  switch (which) {
    case 0:
      return expf(x);
    case 1:
      return logf(x);
    case 2:
      return erff(x);
    case 3:
      return tanhf(x);
    case 4:
      return sqrtf(x);
    case 5:
      return x / y;
    case 6:
      return __bfloat162float(__float2bfloat16(x));
    case 7:
      return __half2float(__float2half(x));
    case 8:
      return from_fp8(x, __NV_E4M3);
    default:
      return from_fp8(x, __NV_E5M2);
  }
}
__global__ void apply(int which, const float* x, const float* y, float* out, size_t n) {
  const size_t at = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (at < n) out[at] = result(which, x[at], y[at]);
}

static int function(const char* name, const float* x, const float* y, float* out, size_t n) {
  int which = 0;
  while (which < functions && strcmp(names[which], name) != 0) ++which;
  if (which == functions) return 1;
  bool failed = false;
  OnDevice<float> of_x(n, failed), of_y(n, failed), of_out(n, failed);
  of_x.fill(x);
  of_y.fill(which == 5 ? y : x); /* others have no second argument */
  if (!failed) apply<<<blocks(n, 256), 256>>>(which, of_x.get(), of_y.get(), of_out.get(), n);
  of_out.read(out);
  return failed;
}

/* The sum of 32 lanes: the upper half of what is left to the lower half, for the first lane. */
__device__ float folded(float x) {
  for (int width = 16; width > 0; width /= 2) x += __shfl_down_sync(0xffffffffU, x, width);
  return __shfl_sync(0xffffffffU, x, 0);
}
/* One thread a column. */
__global__ void add_columns(const float* x, float* out, size_t m, size_t n) {
  const size_t j = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (j >= n) return;
  float sum = 0;
  for (size_t i = 0; i < m; ++i) sum += x[i * n + j];
  out[j] = sum;
}
/* One warp a row, whose lanes take every 32nd number. */
__global__ void add_rows(const float* x, float* out, size_t n) {
  const float* row = x + blockIdx.x * n;
  float sum = 0;
  for (size_t j = threadIdx.x; j < n; j += 32) sum += row[j];
  sum = folded(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
__global__ void softmax(const float* x, float* out, size_t n) {
  const float* row = x + blockIdx.x * n;
  float *p = out + blockIdx.x * n, largest = row[0], sum = 0;
  for (size_t j = 0; j < n; ++j) largest = fmaxf(largest, row[j]);
  for (size_t j = threadIdx.x; j < n; j += 32) sum += p[j] = expf(row[j] - largest);
  sum = folded(sum);
  for (size_t j = threadIdx.x; j < n; j += 32) p[j] /= sum;
}

static int table(const char* name, const float* x, float* out, size_t m, size_t n) {
  const bool columns = strcmp(name, "column_sum") == 0, rows = strcmp(name, "row_sum") == 0;
  if (!columns && !rows && strcmp(name, "softmax") != 0) return 1;
  bool failed = false;
  OnDevice<float> of_x(m * n, failed), of_out(columns ? n : rows ? m : m * n, failed);
  of_x.fill(x);
  if (failed) return 1;
  if (columns) add_columns<<<blocks(n, 256), 256>>>(of_x.get(), of_out.get(), m, n);
  if (rows) add_rows<<<(unsigned)m, 32>>>(of_x.get(), of_out.get(), n);
  if (!columns && !rows) softmax<<<(unsigned)m, 32>>>(of_x.get(), of_out.get(), n);
  of_out.read(out);
  return failed;
}

const plumb_plug_in* plumb_subject_of_library(void) {
  static const plumb_plug_in plug_in = {
      PLUMB_PLUG_IN_VERSION, "cuda_kernels", format, gemm, function, table};
  return &plug_in;
}
