/* A plug-in for plumb calibrate: sgemm of the BLAS that it is linked with.
 *
 *   cc -O2 -fPIC -shared -I PLUMB openblas.c -lopenblas -o openblas.so
 *   plumb calibrate ./openblas.so -o openblas.json
 */
#include <cblas.h>

#include "probe/plug_in.h"

static int gemm(const float* a, const float* b, float* c, size_t m, size_t k, size_t n) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1.0F, a, (int)k, b,
              (int)n, 0.0F, c, (int)n);
  return 0;
}

const plumb_plug_in* plumb_subject_of_library(void) {
  static const plumb_plug_in plug_in = {
      PLUMB_PLUG_IN_VERSION, "openblas", "fp32", gemm, NULL, NULL};
  return &plug_in;
}
