/* A plug-in for plumb calibrate: a kernel that keeps four partial sums, as a vector register of four
 * lanes does, an exponential of a few terms, and sums and a softmax of them. Build it as a shared library, beside probe/plug_in.h:
 *
 *   cc -O2 -ffp-contract=off -fPIC -shared -I PLUMB four_lanes.c -lm -o four_lanes.so
 *   plumb calibrate ./four_lanes.so -o four_lanes.json
 */
#include <math.h>
#include <string.h>

#include "probe/plug_in.h"

static float dot(const float* a, const float* b, size_t k, size_t stride) {
  float lanes[4] = {0, 0, 0, 0};
  for (size_t i = 0; i < k; ++i) lanes[i % 4] += a[i] * b[i * stride];
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

static int gemm(const float* a, const float* b, float* c, size_t m, size_t k, size_t n) {
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) c[i * n + j] = dot(a + i * k, b + j, k, n);
  }
  return 0;
}

/* e^x = 2^n e^r, |r| <= ln(2) / 2: Taylor's polynomial in FP32. */
static float fast_exp(float x) {
  const float n = rintf(x * 1.44269504F);
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  const float p =
      1 + r * (1 + r * (0.5F + r * (1 / 6.0F + r * (1 / 24.0F + r * (1 / 120.0F + r / 720)))));
  return ldexpf(p, (int)n);
}

static int function(const char* name, const float* x, const float* y, float* out, size_t n) {
  const int exponential = strcmp(name, "exp") == 0, quotient = strcmp(name, "divide") == 0;
  if (!exponential && !quotient) return 1;
  for (size_t i = 0; i < n; ++i) out[i] = exponential ? fast_exp(x[i]) : x[i] / y[i];
  return 0;
}

static float row_sum(const float* x, size_t n) {
  float lanes[4] = {0, 0, 0, 0};
  for (size_t i = 0; i < n; ++i) lanes[i % 4] += x[i];
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

static void softmax(const float* x, float* out, size_t n) {
  float largest = x[0];
  for (size_t i = 1; i < n; ++i) largest = fmaxf(largest, x[i]);
  for (size_t i = 0; i < n; ++i) out[i] = fast_exp(x[i] - largest);
  const float sum = row_sum(out, n);
  for (size_t i = 0; i < n; ++i) out[i] /= sum;
}

/* Columns are added row by row; rows and the exponentials of a softmax in four lanes. */
static int table(const char* name, const float* x, float* out, size_t m, size_t n) {
  if (strcmp(name, "column_sum") == 0) {
    for (size_t j = 0; j < n; ++j) out[j] = 0;
    for (size_t i = 0; i < m * n; ++i) out[i % n] += x[i];
    return 0;
  }
  const int rows = strcmp(name, "row_sum") == 0;
  if (!rows && strcmp(name, "softmax") != 0) return 1;
  for (size_t i = 0; i < m; ++i) {
    if (rows) out[i] = row_sum(x + i * n, n);
    if (!rows) softmax(x + i * n, out + i * n, n);
  }
  return 0;
}

const plumb_plug_in* plumb_subject_of_library(void) {
  static const plumb_plug_in plug_in = {
      PLUMB_PLUG_IN_VERSION, "four_lanes", "fp32", gemm, function, table};
  return &plug_in;
}
