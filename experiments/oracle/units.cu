/* The matrix units of an H100 as they are: wgmma and mma, an instruction a step, on codes of numbers. device.py
 * beside this file calls it.
 *
 *   nvcc -O2 -gencode arch=compute_90a,code=sm_90a -Xcompiler -fPIC -shared units.cu -o units.so  (the build makes it)
 *
 * unit_product(unit, a, b, c, rows, cols, bytes): c (rows, cols) = a b, where a has `rows` lines of `bytes` bytes and b
 * has `cols`, all dense; bytes are a multiple of 32. c are bits of FP32, or of FP16 where the unit adds in FP16. The
 * sum starts at +0. Returns 0; 1 if there is no such unit; 2 if the device failed.
 *
 * Fragments, descriptors of shared memory: PTX ISA, "Matrix fragments for mma", "Asynchronous warpgroup level matrix
 * instructions", layouts without swizzle.
 */
#include <cuda_runtime.h>
#include <stdint.h>
#include <string.h>

namespace {

const int deep = 32; /* bytes of a line that one instruction takes; half of it: m16n8k8 */

__device__ uint32_t word_of(const uint8_t* lines, int line, int bytes, int at) {
  return *reinterpret_cast<const uint32_t*>(lines + line * bytes + at);
}

/* ---- mma: one warp, 16 x 8 ---- */

#define MMA_WIDE(name, shape, types)                                                             \
  struct name {                                                                                  \
    typedef uint32_t Sum;                                                                        \
    static const int taken = deep;                                                               \
    __device__ static void step(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) { \
      asm volatile("mma.sync.aligned." shape ".row.col.f32." types                               \
                   ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                  \
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                              \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));          \
    }                                                                                            \
  };
#define MMA_SHORT(name, shape, types)                                                   \
  struct name {                                                                         \
    typedef uint16_t Sum;                                                               \
    static const int taken = deep;                                                      \
    __device__ static void step(uint32_t (&d)[2], const uint32_t (&a)[4],               \
                                const uint32_t (&b)[2]) {                               \
      asm volatile("mma.sync.aligned." shape ".row.col.f16." types                      \
                   ".f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"                     \
                   : "+r"(d[0]), "+r"(d[1])                                             \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
    }                                                                                   \
  };

MMA_WIDE(mma_fp16, "m16n8k16", "f16.f16")
MMA_WIDE(mma_bf16, "m16n8k16", "bf16.bf16")
MMA_WIDE(mma_tf32, "m16n8k8", "tf32.tf32")
MMA_WIDE(mma_e4m3fn, "m16n8k32", "e4m3.e4m3")
MMA_WIDE(mma_e4m3fn_by_e5m2, "m16n8k32", "e4m3.e5m2")
MMA_WIDE(mma_e5m2_by_e4m3fn, "m16n8k32", "e5m2.e4m3")
MMA_WIDE(mma_e5m2, "m16n8k32", "e5m2.e5m2")
MMA_SHORT(mma_fp16_to_fp16, "m16n8k16", "f16.f16")
MMA_SHORT(mma_e4m3fn_to_fp16, "m16n8k32", "e4m3.e4m3")
MMA_SHORT(mma_e4m3fn_by_e5m2_to_fp16, "m16n8k32", "e4m3.e5m2")
MMA_SHORT(mma_e5m2_by_e4m3fn_to_fp16, "m16n8k32", "e5m2.e4m3")
MMA_SHORT(mma_e5m2_to_fp16, "m16n8k32", "e5m2.e5m2")

struct mma_fp16_k8 {
  typedef uint32_t Sum;
  static const int taken = deep / 2;
  __device__ static void step(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]));
  }
};
struct mma_fp16_to_fp16_k8 {
  typedef uint16_t Sum;
  static const int taken = deep / 2;
  __device__ static void step(uint32_t (&d)[2], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%0,%1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));
  }
};

__device__ void store(uint32_t* c, int cols, int row, int col, const float (&d)[4]) {
  c[row * cols + col] = __float_as_uint(d[0]);
  c[row * cols + col + 1] = __float_as_uint(d[1]);
  c[(row + 8) * cols + col] = __float_as_uint(d[2]);
  c[(row + 8) * cols + col + 1] = __float_as_uint(d[3]);
}
__device__ void store(uint16_t* c, int cols, int row, int col, const uint32_t (&d)[2]) {
  for (int half = 0; half < 2; ++half) {
    c[(row + 8 * half) * cols + col] = (uint16_t)d[half];
    c[(row + 8 * half) * cols + col + 1] = (uint16_t)(d[half] >> 16);
  }
}
template <class Sum>
struct Registers {
  typedef float Four[4];
  typedef float Eight[8];
};
template <>
struct Registers<uint16_t> {
  typedef uint32_t Four[2];
  typedef uint32_t Eight[4];
};

template <class Unit>
__global__ void by_mma(const uint8_t* a, const uint8_t* b, typename Unit::Sum* c, int cols,
                       int bytes) {
  const int group = threadIdx.x / 4, at = threadIdx.x % 4 * 4;
  const int row = blockIdx.y * 16 + group, line = blockIdx.x * 8 + group;
  typename Registers<typename Unit::Sum>::Four d = {};
  for (int k = 0; k < bytes; k += Unit::taken) {
    uint32_t left[4] = {word_of(a, row, bytes, k + at), word_of(a, row + 8, bytes, k + at), 0, 0};
    uint32_t right[2] = {word_of(b, line, bytes, k + at), 0};
    if (Unit::taken == deep) {
      left[2] = word_of(a, row, bytes, k + 16 + at);
      left[3] = word_of(a, row + 8, bytes, k + 16 + at);
      right[1] = word_of(b, line, bytes, k + 16 + at);
    }
    Unit::step(d, left, right);
  }
  store(c, cols, row, blockIdx.x * 8 + threadIdx.x % 4 * 2, d);
}

/* ---- wgmma: four warps, 64 x 16, both operands in shared memory ---- */

#define WGMMA_WIDE(name, shape, types, turned)                                               \
  struct name {                                                                              \
    typedef uint32_t Sum;                                                                    \
    __device__ static void step(float (&d)[8], uint64_t a, uint64_t b) {                     \
      asm volatile("wgmma.mma_async.sync.aligned." shape ".f32." types                       \
                   " {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, 1, 1, 1" turned ";"                  \
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), \
                     "+f"(d[6]), "+f"(d[7])                                                  \
                   : "l"(a), "l"(b));                                                        \
    }                                                                                        \
  };
#define WGMMA_SHORT(name, shape, types, turned)                             \
  struct name {                                                             \
    typedef uint16_t Sum;                                                   \
    __device__ static void step(uint32_t (&d)[4], uint64_t a, uint64_t b) { \
      asm volatile("wgmma.mma_async.sync.aligned." shape ".f16." types      \
                   " {%0,%1,%2,%3}, %4, %5, 1, 1, 1" turned ";"             \
                   : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])         \
                   : "l"(a), "l"(b));                                       \
    }                                                                       \
  };

WGMMA_WIDE(wgmma_fp16, "m64n16k16", "f16.f16", ", 0, 0")
WGMMA_WIDE(wgmma_bf16, "m64n16k16", "bf16.bf16", ", 0, 0")
WGMMA_WIDE(wgmma_tf32, "m64n16k8", "tf32.tf32", "")
WGMMA_WIDE(wgmma_e4m3fn, "m64n16k32", "e4m3.e4m3", "")
WGMMA_WIDE(wgmma_e4m3fn_by_e5m2, "m64n16k32", "e4m3.e5m2", "")
WGMMA_WIDE(wgmma_e5m2_by_e4m3fn, "m64n16k32", "e5m2.e4m3", "")
WGMMA_WIDE(wgmma_e5m2, "m64n16k32", "e5m2.e5m2", "")
WGMMA_SHORT(wgmma_fp16_to_fp16, "m64n16k16", "f16.f16", ", 0, 0")
WGMMA_SHORT(wgmma_e4m3fn_to_fp16, "m64n16k32", "e4m3.e4m3", "")
WGMMA_SHORT(wgmma_e4m3fn_by_e5m2_to_fp16, "m64n16k32", "e4m3.e5m2", "")
WGMMA_SHORT(wgmma_e5m2_by_e4m3fn_to_fp16, "m64n16k32", "e5m2.e4m3", "")
WGMMA_SHORT(wgmma_e5m2_to_fp16, "m64n16k32", "e5m2.e5m2", "")

/* Eight lines of 16 bytes lie together; two such pieces are the 32 bytes, then come the next eight lines. */
__device__ void place(uint8_t* there, const uint8_t* lines, int count, int bytes, int k) {
  for (int word = threadIdx.x; word < count * deep / 4; word += blockDim.x) {
    const int line = word / 8, at = word % 8 * 4;
    const int piece = line / 8 * 2 + at / 16;
    *reinterpret_cast<uint32_t*>(there + piece * 128 + line % 8 * 16 + at % 16) =
        word_of(lines, line, bytes, k + at);
  }
}
__device__ uint64_t described(const uint8_t* shared) {
  const uint64_t start = (uint64_t)__cvta_generic_to_shared(shared);
  const uint64_t along_k = 128, along_lines = 256;
  return (start & 0x3ffff) >> 4 | along_k >> 4 << 16 | along_lines >> 4 << 32;
}

template <class Unit>
__global__ void by_wgmma(const uint8_t* a, const uint8_t* b, typename Unit::Sum* c, int cols,
                         int bytes) {
  __shared__ __align__(128) uint8_t left[64 * deep];
  __shared__ __align__(128) uint8_t right[16 * deep];
  const int first = blockIdx.y * 64, column = blockIdx.x * 16;
  typename Registers<typename Unit::Sum>::Eight d = {};
  for (int k = 0; k < bytes; k += deep) {
    place(left, a + first * bytes, 64, bytes, k);
    place(right, b + column * bytes, 16, bytes, k);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    Unit::step(d, described(left), described(right));
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    __syncthreads();
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = first + warp * 16 + lane / 4, half = sizeof d / sizeof d[0] / 2;
  for (int part = 0; part < 2; ++part) {
    typename Registers<typename Unit::Sum>::Four four;
    for (int i = 0; i < half; ++i) four[i] = d[part * half + i];
    store(c, cols, row, column + part * 8 + lane % 4 * 2, four);
  }
}

/* ---- by name ---- */

struct Sizes {
  int rows, cols, bytes;
};
int padded(int n, int to) { return (n + to - 1) / to * to; }

/* A copy with zeros below, on the device. */
uint8_t* on_device(const void* from, int lines, int all, int bytes, bool& well) {
  uint8_t* to = NULL;
  well = well && cudaMalloc(&to, (size_t)all * bytes) == cudaSuccess;
  well = well && cudaMemset(to, 0, (size_t)all * bytes) == cudaSuccess;
  well = well && cudaMemcpy(to, from, (size_t)lines * bytes, cudaMemcpyHostToDevice) == cudaSuccess;
  return to;
}

template <class Sum, class Start>
int product(const void* a, const void* b, void* c, const Sizes& n, const Start& start) {
  const int rows = padded(n.rows, 64), cols = padded(n.cols, 16);
  bool well = true;
  uint8_t* of_a = on_device(a, n.rows, rows, n.bytes, well);
  uint8_t* of_b = on_device(b, n.cols, cols, n.bytes, well);
  Sum* of_c = NULL;
  well = well && cudaMalloc(&of_c, (size_t)rows * cols * sizeof(Sum)) == cudaSuccess;
  if (well) start(of_a, of_b, of_c, Sizes{rows, cols, n.bytes});
  well = well && cudaGetLastError() == cudaSuccess &&
         cudaMemcpy2D(c, n.cols * sizeof(Sum), of_c, cols * sizeof(Sum), n.cols * sizeof(Sum),
                      n.rows, cudaMemcpyDeviceToHost) == cudaSuccess;
  cudaFree(of_a);
  cudaFree(of_b);
  cudaFree(of_c);
  return well ? 0 : 2;
}

}  // namespace

extern "C" int unit_product(const char* unit, const void* a, const void* b, void* c, int rows,
                            int cols, int bytes) {
  const Sizes n = {rows, cols, bytes};
#define BY_MMA(name)                                                                              \
  if (strcmp(unit, #name) == 0) {                                                                 \
    return product<name::Sum>(                                                                    \
        a, b, c, n, [](uint8_t* l, uint8_t* r, name::Sum* to, const Sizes& all) {                 \
          by_mma<name><<<dim3(all.cols / 8, all.rows / 16), 32>>>(l, r, to, all.cols, all.bytes); \
        });                                                                                       \
  }
#define BY_WGMMA(name)                                                                      \
  if (strcmp(unit, #name) == 0) {                                                           \
    return product<name::Sum>(                                                              \
        a, b, c, n, [](uint8_t* l, uint8_t* r, name::Sum* to, const Sizes& all) {           \
          by_wgmma<name>                                                                    \
              <<<dim3(all.cols / 16, all.rows / 64), 128>>>(l, r, to, all.cols, all.bytes); \
        });                                                                                 \
  }
  BY_MMA(mma_fp16)
  BY_MMA(mma_bf16)
  BY_MMA(mma_tf32)
  BY_MMA(mma_e4m3fn)
  BY_MMA(mma_e4m3fn_by_e5m2)
  BY_MMA(mma_e5m2_by_e4m3fn)
  BY_MMA(mma_e5m2)
  BY_MMA(mma_fp16_to_fp16)
  BY_MMA(mma_e4m3fn_to_fp16)
  BY_MMA(mma_e4m3fn_by_e5m2_to_fp16)
  BY_MMA(mma_e5m2_by_e4m3fn_to_fp16)
  BY_MMA(mma_e5m2_to_fp16)
  BY_MMA(mma_fp16_k8)
  BY_MMA(mma_fp16_to_fp16_k8)
  BY_WGMMA(wgmma_fp16)
  BY_WGMMA(wgmma_bf16)
  BY_WGMMA(wgmma_tf32)
  BY_WGMMA(wgmma_e4m3fn)
  BY_WGMMA(wgmma_e4m3fn_by_e5m2)
  BY_WGMMA(wgmma_e5m2_by_e4m3fn)
  BY_WGMMA(wgmma_e5m2)
  BY_WGMMA(wgmma_fp16_to_fp16)
  BY_WGMMA(wgmma_e4m3fn_to_fp16)
  BY_WGMMA(wgmma_e4m3fn_by_e5m2_to_fp16)
  BY_WGMMA(wgmma_e5m2_by_e4m3fn_to_fp16)
  BY_WGMMA(wgmma_e5m2_to_fp16)
  return 1;
}
