/* A plug-in for plumb calibrate: a kernel that keeps four partial sums, as a vector register of four
 * lanes does. Build it as a shared library, beside probe/plug_in.h:
 *
 *   cc -O2 -ffp-contract=off -fPIC -shared -I PLUMB four_lanes.c -o four_lanes.so
 *   plumb calibrate ./four_lanes.so -o four_lanes.json
 */
#include "probe/plug_in.h"

static float dot(const float *a, const float *b, size_t k, size_t stride) {
  float lanes[4] = {0, 0, 0, 0};
  for (size_t i = 0; i < k; ++i) lanes[i % 4] += a[i] * b[i * stride];
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

static int gemm(const float *a, const float *b, float *c, size_t m, size_t k, size_t n) {
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) c[i * n + j] = dot(a + i * k, b + j, k, n);
  }
  return 0;
}

const plumb_plug_in *plumb_subject_of_library(void) {
  static const plumb_plug_in plug_in = {PLUMB_PLUG_IN_VERSION, "four_lanes", "fp32", gemm};
  return &plug_in;
}
