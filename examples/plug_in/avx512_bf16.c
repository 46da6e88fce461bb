/* A plug-in for plumb calibrate: products by the instruction vdpbf16ps, which multiplies pairs of BF16
 * numbers and adds them to a sum of FP32. One lane is one column of C.
 *
 *   cc -O2 -mavx512f -mavx512bf16 -fPIC -shared -I PLUMB avx512_bf16.c -o avx512_bf16.so
 *   plumb calibrate ./avx512_bf16.so -o avx512_bf16.json
 *
 * Only for a processor that has the instruction.
 */
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "probe/plug_in.h"

/* The code of a number of BF16. */
static uint32_t code(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits >> 16;
}

/* Rows k and k + 1 of a matrix as pairs of codes; beyond its end they are zero. */
static uint32_t pair(const float* x, size_t k, size_t rows, size_t stride) {
  const uint32_t low = code(x[k * stride]);
  return k + 1 < rows ? low | code(x[(k + 1) * stride]) << 16 : low;
}

static int gemm(const float* a, const float* b, float* c, size_t m, size_t k, size_t n) {
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; j += 16) {
      const size_t columns = n - j < 16 ? n - j : 16;
      __m512 sum = _mm512_setzero_ps();
      for (size_t p = 0; p < k; p += 2) {
        uint32_t pairs[16] = {0};
        for (size_t l = 0; l < columns; ++l) pairs[l] = pair(b + j + l, p, k, n);
        const __m512i left = _mm512_set1_epi32((int)pair(a + i * k, p, k, 1));
        const __m512i right = _mm512_loadu_si512(pairs);
        sum = _mm512_dpbf16_ps(sum, (__m512bh)left, (__m512bh)right);
      }
      float out[16];
      _mm512_storeu_ps(out, sum);
      memcpy(c + i * n + j, out, columns * sizeof *out);
    }
  }
  return 0;
}

const plumb_plug_in* plumb_subject_of_library(void) {
  static const plumb_plug_in plug_in = {
      PLUMB_PLUG_IN_VERSION, "avx512_bf16", "bf16", gemm, NULL, NULL};
  return &plug_in;
}
