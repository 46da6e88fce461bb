/* probe/plug_in.h: what a shared library offers to plumb calibrate. Plain C; include it alone.
 *
 * The library defines plumb_subject_of_library(), which returns a description that stays valid.
 *
 *   gemm    C (m, n) = A (m, k) B (k, n), row by row. Values of A and B are numbers of `format`, as
 *           float; C is what the device returns, as float. Returns 0, or anything else if it failed.
 *   function    out[i] = name(x[i]) of FP32 numbers: "exp", "log", "erf", "tanh", "sqrt"; of "divide"
 *           x[i] / y[i]; of "cast_bf16", "cast_fp16", "cast_e4m3fn", "cast_e5m2" x[i] as a number of
 *           that format. Returns 0, or anything else if the device has no such function. May be NULL.
 *   table   of x (m, n), FP32 numbers row by row: "column_sum" out (n), the sum of each column;
 *           "row_sum" out (m); "softmax" of each row, out (m, n). Returns 0, or anything else if the
 *           device has no such table. May be NULL. Libraries of version 1 have no such member.
 *
 * example: examples/plug_in
 */
#ifndef PLUMB_PLUG_IN_H
#define PLUMB_PLUG_IN_H

#include <stddef.h>

#define PLUMB_PLUG_IN_VERSION 2

typedef struct plumb_plug_in {
  int version;        /* PLUMB_PLUG_IN_VERSION */
  const char* name;   /* one word, e.g. "mykernel" */
  const char* format; /* of the operands: "fp32", "bf16", "fp16", "tf32", "e4m3fn", "e5m2" */
  int (*gemm)(const float* a, const float* b, float* c, size_t m, size_t k, size_t n);
  int (*function)(const char* name, const float* x, const float* y, float* out, size_t n);
  int (*table)(const char* name, const float* x, float* out, size_t m, size_t n);
} plumb_plug_in;

#ifdef __cplusplus
extern "C"
#endif
    const plumb_plug_in*
    plumb_subject_of_library(void);

#endif
