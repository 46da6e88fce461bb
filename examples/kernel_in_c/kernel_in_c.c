/* A kernel's test in C without a guessed tolerance: a product in FP32, taken in blocks of K, and a
 * softmax are held against the bounds for the test's own inputs. A mistake is planted in each, and
 * seen. */
#include <math.h>
#include <plumb.h>
#include <stdint.h>
#include <stdio.h>

enum { M = 16, K = 1024, N = 16, BLOCK = 128, ROWS = 8, COLUMNS = 4096 };

static float a[M * K], b[K * N], c[M * N], x[ROWS * COLUMNS], p[ROWS * COLUMNS];

/* Numbers in (-1, 1), the same in every run. */
static void fill(float* numbers, size_t n, uint64_t seed) {
  uint64_t state = seed;
  for (size_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    numbers[i] = (float)((double)(state >> 40) / 8388608 - 1);
  }
}

/* The first kernel under test. Its mistake: in one tile the last block of K is the one before. */
static void product(int mistaken) {
  for (size_t i = 0; i < M; ++i) {
    for (size_t j = 0; j < N; ++j) {
      float sum = 0;
      for (size_t block = 0; block < K; block += BLOCK) {
        const int wrong = mistaken && i < 4 && j < 4 && block + BLOCK == K;
        const size_t from = wrong ? block - BLOCK : block;
        float partial = 0;
        for (size_t k = from; k < from + BLOCK; ++k) partial += a[i * K + k] * b[k * N + j];
        sum += partial;
      }
      c[i * N + j] = sum;
    }
  }
}

/* The second one. Its mistake: the mask forgets one key, in one row. */
static void softmax(int mistaken) {
  for (size_t row = 0; row < ROWS; ++row) {
    const float* in = x + row * COLUMNS;
    float largest = in[0], sum = 0;
    for (size_t j = 1; j < COLUMNS; ++j) largest = fmaxf(largest, in[j]);
    for (size_t j = 0; j < COLUMNS; ++j) {
      if (!(mistaken && row == 5 && j == 17)) sum += expf(in[j] - largest);
    }
    for (size_t j = 0; j < COLUMNS; ++j) p[row * COLUMNS + j] = expf(in[j] - largest) / sum;
  }
}

/* The verdict, which is said. */
static int verdict(const char* what, const plumb_call* call) {
  plumb_result result;
  const int code = plumb_judge(call, &result);
  printf("-- %s\n%s\n", what, result.explanation);
  plumb_free(&result);
  return code;
}

int main(void) {
  const plumb_tensor operands[] = {
      {.name = "A", .data = a, .format = "fp32", .dimensions = 2, .shape = {M, K}},
      {.name = "B", .data = b, .format = "fp32", .dimensions = 2, .shape = {K, N}}};
  const plumb_tensor made = {.data = c, .format = "fp32", .dimensions = 2, .shape = {M, N}};
  const plumb_tensor logits = {
      .data = x, .format = "fp32", .dimensions = 2, .shape = {ROWS, COLUMNS}};
  const plumb_tensor shares = {
      .data = p, .format = "fp32", .dimensions = 2, .shape = {ROWS, COLUMNS}};
  const plumb_call gemm = {.operation = "gemm",
                           .inputs = operands,
                           .input_count = 2,
                           .outputs = &made,
                           .output_count = 1};
  /* This kernel adds from the first to the last: a card that says so sees one key of 4096. */
  const plumb_call attend = {.operation = "softmax",
                             .inputs = &logits,
                             .input_count = 1,
                             .outputs = &shares,
                             .output_count = 1,
                             .machine = "ieee-sequential"};
  int as_expected = plumb_abi() == PLUMB_ABI;
  fill(a, M * K, 1);
  fill(b, K * N, 2);
  fill(x, ROWS * COLUMNS, 3);
  product(0);
  as_expected &= verdict("the product", &gemm) == PLUMB_PASS;
  product(1);
  as_expected &= verdict("the product with a wrong block", &gemm) == PLUMB_FAIL;
  softmax(0);
  as_expected &= verdict("the softmax", &attend) == PLUMB_PASS;
  softmax(1);
  as_expected &= verdict("the softmax without one key", &attend) == PLUMB_FAIL;
  return as_expected ? 0 : 1;
}
