/* A plug-in for plumb calibrate: products of cuBLASLt by one of the algorithms that it proposes, since
 * each may add in an order of its own. Numbers are -DNUMBERS_BF16, -DNUMBERS_FP16 or -DNUMBERS_E4M3FN.
 *
 *   nvcc -O2 -DNUMBERS_BF16 -Xcompiler -fPIC -shared -I PLUMB cublaslt.cu -lcublasLt -o cublaslt.so
 *   PLUMB_ALGORITHM=2 plumb calibrate ./cublaslt.so -o cublaslt-2.json
 *
 * PLUMB_ALGORITHM: the first, 0, is what cuBLASLt likes best for a shape; one that is not there fails.
 * PLUMB_FAST_ACCUMULATION=1: FP8 products in as many bits as the matrix unit has.
 */
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/plug_in.h"

#if defined(NUMBERS_E4M3FN)
typedef __nv_fp8_e4m3 Number;
static const cudaDataType_t type = CUDA_R_8F_E4M3;
static const char* const format = "e4m3fn";
#elif defined(NUMBERS_FP16)
typedef __half Number;
static const cudaDataType_t type = CUDA_R_16F;
static const char* const format = "fp16";
#else
typedef __nv_bfloat16 Number;
static const cudaDataType_t type = CUDA_R_16BF;
static const char* const format = "bf16";
#endif

static const size_t side = 16;             /* sizes of FP8 are multiples of it */
static const size_t workspace = 32U << 20; /* bytes, for algorithms that split sums */
static const int proposals = 32;

static size_t padded(size_t n) { return (n + side - 1) / side * side; }

static int number_of(const char* variable) {
  const char* text = getenv(variable);
  return text == NULL ? 0 : atoi(text);
}

/* Rows of x, or its columns, one after the other, with zeros behind each and below the last one. */
static Number* copied(const float* x, size_t rows, size_t columns, bool by_columns) {
  const size_t lines = padded(by_columns ? columns : rows);
  const size_t length = padded(by_columns ? rows : columns);
  Number* all = new Number[lines * length];
  for (size_t at = 0; at < lines * length; ++at) all[at] = Number(0.0F);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      all[by_columns ? j * length + i : i * length + j] = Number(x[i * columns + j]);
    }
  }
  return all;
}

/* What one product needs on the device, and whether all of it went well. */
struct Product {
  void *a = NULL, *b = NULL, *c = NULL, *space = NULL;
  cublasLtHandle_t handle = NULL;
  cublasLtMatmulDesc_t how = NULL;
  cublasLtMatrixLayout_t of_a = NULL, of_b = NULL, of_c = NULL;
  cublasLtMatmulPreference_t preference = NULL;
  bool well = true;

  Product() = default;
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  ~Product() {
    if (preference != NULL) cublasLtMatmulPreferenceDestroy(preference);
    if (of_c != NULL) cublasLtMatrixLayoutDestroy(of_c);
    if (of_b != NULL) cublasLtMatrixLayoutDestroy(of_b);
    if (of_a != NULL) cublasLtMatrixLayoutDestroy(of_a);
    if (how != NULL) cublasLtMatmulDescDestroy(how);
    if (handle != NULL) cublasLtDestroy(handle);
    cudaFree(space);
    cudaFree(c);
    cudaFree(b);
    cudaFree(a);
  }
  void must(cudaError_t done) { well = well && done == cudaSuccess; }
  void must(cublasStatus_t done) { well = well && done == CUBLAS_STATUS_SUCCESS; }
};

/* cuBLASLt counts columns first: C' (n, m) = (B by columns)' (A by rows), both of k numbers a line. */
static void describe(Product& p, size_t m, size_t k, size_t n) {
  const cublasOperation_t turned = CUBLAS_OP_T;
  const int8_t fast = (int8_t)number_of("PLUMB_FAST_ACCUMULATION");
  p.must(cublasLtCreate(&p.handle));
  p.must(cublasLtMatmulDescCreate(&p.how, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  if (!p.well) return;
  p.must(
      cublasLtMatmulDescSetAttribute(p.how, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned));
  p.must(
      cublasLtMatmulDescSetAttribute(p.how, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast));
  p.must(cublasLtMatrixLayoutCreate(&p.of_b, type, k, n, (int64_t)k));
  p.must(cublasLtMatrixLayoutCreate(&p.of_a, type, k, m, (int64_t)k));
  p.must(cublasLtMatrixLayoutCreate(&p.of_c, CUDA_R_32F, n, m, (int64_t)n));
  p.must(cublasLtMatmulPreferenceCreate(&p.preference));
  if (!p.well) return;
  p.must(cublasLtMatmulPreferenceSetAttribute(
      p.preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
}

static void multiply(Product& p) {
  cublasLtMatmulHeuristicResult_t all[proposals];
  int count = 0;
  if (!p.well) return;
  p.must(cublasLtMatmulAlgoGetHeuristic(p.handle, p.how, p.of_b, p.of_a, p.of_c, p.of_c,
                                        p.preference, proposals, all, &count));
  const int chosen = number_of("PLUMB_ALGORITHM");
  p.well = p.well && chosen >= 0 && chosen < count;
  if (!p.well) return;
  const float one = 1, zero = 0;
  p.must(cublasLtMatmul(p.handle, p.how, &one, p.b, p.of_b, p.a, p.of_a, &zero, p.c, p.of_c, p.c,
                        p.of_c, &all[chosen].algo, p.space, workspace, 0));
}

static int gemm(const float* a, const float* b, float* c, size_t m, size_t k, size_t n) {
  const size_t rows = padded(m), depth = padded(k), columns = padded(n);
  const size_t of_a = rows * depth * sizeof(Number), of_b = depth * columns * sizeof(Number);
  const size_t of_c = rows * columns * sizeof(float);
  Number *left = copied(a, m, k, false), *right = copied(b, k, n, true);
  float* all = new float[rows * columns];
  Product p;
  p.must(cudaMalloc(&p.a, of_a));
  p.must(cudaMalloc(&p.b, of_b));
  p.must(cudaMalloc(&p.c, of_c));
  p.must(cudaMalloc(&p.space, workspace));
  if (p.well) p.must(cudaMemcpy(p.a, left, of_a, cudaMemcpyHostToDevice));
  if (p.well) p.must(cudaMemcpy(p.b, right, of_b, cudaMemcpyHostToDevice));
  if (p.well) describe(p, rows, depth, columns);
  multiply(p);
  if (p.well) p.must(cudaMemcpy(all, p.c, of_c, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < m && p.well; ++i) memcpy(c + i * n, all + i * columns, n * sizeof *c);
  delete[] left;
  delete[] right;
  delete[] all;
  return p.well ? 0 : 1;
}

const plumb_plug_in* plumb_subject_of_library(void) {
  static char name[40];
  const bool fast = number_of("PLUMB_FAST_ACCUMULATION") != 0;
  snprintf(name, sizeof name, "cublaslt-%d%s", number_of("PLUMB_ALGORITHM"), fast ? "-fast" : "");
  static const plumb_plug_in plug_in = {PLUMB_PLUG_IN_VERSION, name, format, gemm, NULL, NULL};
  return &plug_in;
}
