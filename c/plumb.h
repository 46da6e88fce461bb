/* c/plumb.h: what one operation's kernel made of its inputs, held against derived bounds, from C99 or
 * anything that calls C.
 *
 *   plumb_judge   holds each element of the outputs against the bound for these inputs
 *   plumb_bound   says value and bound of each element, without a kernel's output
 *
 * plumb_operation and plumb_signature say which operations there are, and what their inputs, outputs
 * and attributes are called; the top of each file of bounds/operations, what they mean.
 *
 * ASSUMES  what a call points to stays as it is until the function returns; nothing of it is kept.
 * REFUSES  with PLUMB_TROUBLE and one sentence, in the result and in plumb_last_error().
 * HOLDS    no exception leaves a function. Every function may be called by several threads at once.
 *          Rounding and flushing of the calling thread neither matter nor change.
 * TESTED   tests/c, examples/kernel_in_c
 */
#ifndef PLUMB_H
#define PLUMB_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PLUMB_API __attribute__((visibility("default")))
#else
#define PLUMB_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Another number: structs or functions are others. plumb_abi() is that of the library. */
#define PLUMB_ABI 1
#define PLUMB_DIMENSIONS 8

/* What functions return: those of the program's exit codes. */
enum {
  PLUMB_PASS = 0,    /* all inside */
  PLUMB_FAIL = 1,    /* an element is outside of its bound, or is no number */
  PLUMB_TROUBLE = 2, /* no verdict: plumb_last_error() says why, and what to do */
  PLUMB_NOTHING = 3  /* nothing was there that could have failed */
};

/* An input or an output. All of its dimensions but the last are rows; fields that are 0 say nothing. */
typedef struct plumb_tensor {
  const char* name; /* of the operation's input or output, as "x"; NULL: the next in their order */
  const void* data; /* NULL: of plumb_bound's outputs, and of tensors without numbers */
  const char* format; /* fp32, fp16, bf16, e4m3fn, e5m2, e4m3fnuz, e5m2fnuz, e3m2, e2m3, e2m1, e8m0:
                         one number in each 4, 2 or 1 bytes; fp64, int8 ... uint64: whose numbers are
                         FP32's */
  size_t dimensions;
  size_t shape[PLUMB_DIMENSIONS];
  ptrdiff_t strides[PLUMB_DIMENSIONS]; /* in elements; all 0: rows lie one behind the other */
  /* Of outputs: where to write value and bound of each element (under "moments" the standard
     deviation, and the bias), rows one behind the other. Rows that were not drawn become NaN. */
  double* value;
  double* bound;
  double* bias;
} plumb_tensor;

typedef struct plumb_attribute {
  const char* name;
  double value;
} plumb_attribute;

/* Set all of it to 0 first: what is 0 has the default. */
typedef struct plumb_call {
  const char* operation;
  const plumb_tensor* inputs;
  size_t input_count;
  const plumb_tensor* outputs;
  size_t output_count;
  const plumb_attribute* attributes; /* flags that are left out are 0 */
  size_t attribute_count;
  const char* machine;      /* a card, or a file that has a / or ends in .json; NULL: "libraries" */
  const char* mode;         /* "deterministic" (NULL), "probabilistic", "moments" */
  const char* format;       /* of outputs that are held wider, in fp32; NULL: their own */
  const char* input_format; /* of a product's inputs that are held wider; NULL: their own */
  double delta;             /* failure probability of probabilistic and moments; 0: 1e-9 */
  uint64_t rows;            /* judge so many, drawn by chance; 0: all */
  uint64_t seed;            /* draws them; 0 where all are judged */
} plumb_call;

/* A term of a bound. */
typedef struct plumb_term {
  const char* name;
  const char* formula;
  double size;
} plumb_term;

/* One output of the call, at its place there. Of plumb_bound the worst element is that with the largest bound; it is found as value. */
typedef struct plumb_output {
  const char* name;
  const char* format; /* that it was judged in */
  size_t elements, outside, not_finite;
  size_t worst_element; /* its place, as if rows lay one behind the other */
  double worst_ratio;   /* |found - value| / bound; infinite of what is no number */
  double found, value, bound, bias;
  const plumb_term* terms; /* of the worst element's bound */
  size_t term_count;
} plumb_output;

/* What was found. All that it points to is its own until plumb_free(). */
typedef struct plumb_result {
  int code; /* what the function returned */
  size_t elements, outside, not_finite;
  size_t worst_output; /* the output with the worst element: outputs[worst_output] */
  size_t worst_element;
  double worst_ratio;
  double found, value, bound, bias;
  const char* term; /* the largest of the worst element's bound; NULL: none */
  double term_size;
  size_t rows, of_rows;        /* judged of how many; equal: all */
  const char* assumes;         /* order of sums, formulas, functions */
  const char* explanation;     /* lines for people; of trouble its sentence */
  const plumb_output* outputs; /* as many as the call has */
  size_t output_count;
  void* owner;
} plumb_result;

/* `result` may be NULL. It is overwritten: call plumb_free() between two uses. */
PLUMB_API int plumb_judge(const plumb_call* call, plumb_result* result);
/* The outputs have shapes and formats, and no data. */
PLUMB_API int plumb_bound(const plumb_call* call, plumb_result* result);
/* The shape of an output, by the shapes of the inputs. PLUMB_NOTHING: there are not so many. */
PLUMB_API int plumb_shape(const plumb_call* call, size_t output, size_t* rows, size_t* columns);
/* Frees what the result owns, and sets it to 0. Again, or of a result that is 0: does nothing. */
PLUMB_API void plumb_free(plumb_result* result);

/* The sentence of the last function of this thread; empty, if it had no trouble. */
PLUMB_API const char* plumb_last_error(void);
PLUMB_API unsigned plumb_abi(void);
PLUMB_API const char* plumb_version(void);
/* The names of operations, and of machine cards, by number; NULL: there are not so many. */
PLUMB_API const char* plumb_operation(size_t number);
PLUMB_API const char* plumb_machine(size_t number);
/* What an operation takes and makes, in one line: its inputs, outputs and attributes by name. NULL: there
 * is no such operation. Stays until the program ends. */
PLUMB_API const char* plumb_signature(const char* operation);

#ifdef __cplusplus
}
#endif

#endif
