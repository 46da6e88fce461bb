// kernels/ops.hpp: the operations of the model besides products, in plain loops.
//
// They are under test: they fulfil the same promises as bounds/operations (see there for the
// mathematics and the order of each sum). They share the rounding of formats, the exponential,
// Philox and the transpose of number/ with them, which have tests of their own, and no other
// arithmetic. Products are of a Backend; the reference backend shares those of number/
// (kernels/reference/gemm.cpp). Nothing here rounds to a format; the model does, with
// `round_to_format`.
//
// TESTED   tests/model/one_rank_test.cpp (bit for bit the promise), tests/model/gradient_test.cpp
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/sees.hpp"
#include "number/blocks.hpp"
#include "number/format.hpp"
#include "number/matrix.hpp"

namespace plumb::kernels {

// Rounds every value to a number of the format, nearest even. Memory speed for bf16.
void round_to_format(std::span<float> x, const Format& format);

float largest_finite(std::span<const float> x);  // magnitude; 0 of none
// Returns the largest magnitude; NaN if there is one.
float largest_magnitude(std::span<const float> x);
// Returns the largest power of two that keeps `amax` within the format; 1 where amax is zero or not
// finite.
float scale_to_fit(float amax, const Format& format);
// Rounds x times scale to the format and divides it by scale again; scale is a power of two. What
// lies beyond the largest number overflows, or becomes it (`saturating`).
void quantize(std::span<float> x, float scale, const Format& format, bool saturating);

// Blocks, from the tensor's first element on; those at the ends may be smaller.
struct BlockSize {
  std::size_t rows, cols;
};
Tensor block_magnitudes(const Tensor& x, const BlockSize& block);  // largest finite, one a block
// The number that an E4M3 scale of one stands for, given the whole tensor's largest magnitude, by
// the rule nested or nested_reciprocal.
float grid_of_scales(float tensor_amax, ScaleRule rule, const Format& format);
// By the rules ceil, exact, nested and nested_reciprocal, of which the last two read `tensor_amax`.
// Throws std::invalid_argument on another rule.
float block_scale_to_fit(float amax, ScaleRule rule, const Format& format, float tensor_amax);
void divide_blocks(Tensor& x, const Tensor& scales, const BlockSize& block);
// Multiplies by 1 / scale, in FP32; by the largest number where that is infinite.
void divide_blocks_by_reciprocals(Tensor& x, const Tensor& scales, const BlockSize& block);
void multiply_blocks(Tensor& x, const Tensor& scales, const BlockSize& block);
// Cuts values beyond the format's largest number to that number.
void saturate(std::span<float> x, const Format& format);

// Norms. `bias` empty: RMSNorm; else LayerNorm.                                        // x (T, D)
Tensor norm_forward(const Tensor& x, std::span<const float> weight, std::span<const float> bias,
                    float eps);
struct NormGradients {
  Tensor dx;            // (T, D)
  Tensor weight, bias;  // (D, 1) sums over the rows given; bias empty for RMSNorm
};
NormGradients norm_backward(const Tensor& x, std::span<const float> weight, const Tensor& dy,
                            bool layer_norm, float eps);

// Heads of packed qkv. A rank may have some tokens of each sequence only: `positions`, ascending;
// functions that need keys and values of all tokens take these in a tensor of their own.
struct HeadShape {
  std::size_t heads, kv_heads, dim;
  std::size_t sequence;                // tokens of a sequence
  std::vector<std::size_t> positions;  // of this rank's tokens in each
  std::vector<float> sinks = {};       // a logit of each head here; empty: there are none
  // Where documents are packed into sequences, for this rank's tokens of all sequences: the
  // position within the document, and the first key that the token sees, as a position in the
  // sequence.
  std::vector<std::size_t> within = {}, first_keys = {};
  std::size_t queries() const { return positions.size(); }
  std::size_t first_key(std::size_t in_sequence, std::size_t query) const {
    return first_keys.empty() ? 0 : first_keys[in_sequence * queries() + query];
  }
};
// The first columns of a query head in packed qkv, and of its group's key and value.
struct HeadColumns {
  std::size_t query, key, value;
};
HeadColumns columns_of(const HeadShape& shape, std::size_t head);
// Rotates the last columns of the query and key heads of this rank's tokens, two for each frequency
// (radians a position); direction -1 rotates back. Either makes them `size` times as long.
void rotate_heads(Tensor& qkv, const HeadShape& shape, std::span<const double> frequencies,
                  int direction, double size = 1);  // in place

// Queries (Q, heads dim), and per key/value head its key's own columns and its value, packed; the
// last columns of every key are `shared`, (Q, s), or empty: s = 0.
// Gradients go the other way: that of `shared` is the sum over the heads here.
struct HeadParts {
  Tensor q, kv, shared;  // kv (Q, kv_heads (2 dim - s))
};
Tensor pack_heads(const HeadParts& parts, const HeadShape& shape);  // (Q, F)
HeadParts split_heads(const Tensor& d_qkv, const HeadShape& shape, std::size_t s);

// The query heads of this rank's tokens (or its key heads) below one another, each with all of
// them, and back.                                                               // (heads Q', dim)
Tensor stacked_heads(const Tensor& qkv, const HeadShape& shape, bool keys);
void put_heads(const Tensor& rows, const HeadShape& shape, bool keys, Tensor& qkv);

// Scaled scores of one head over one sequence, before softmax; those of later keys are unused.
// q, d_o: this rank's tokens; kv: all tokens, which is q where a rank has all.         // (Q, S)
Tensor attention_scores(const Backend& backend, const Tensor& q, const Tensor& kv,
                        const HeadShape& shape, std::size_t sequence, std::size_t head);
// Causal softmax of a head in place; keys out of sight become zero. Returns the probability of its
// sink in each row; empty where there is none.                                          // (Q, 1)
Tensor causal_softmax(Tensor& scores, const HeadShape& shape, std::size_t sequence,
                      std::size_t head);
// Writes the block of head and sequence in o (Q, heads dim) from rounded P.
void attend(const Backend& backend, const Tensor& p, const Tensor& kv, const HeadShape& shape,
            std::size_t sequence, std::size_t head, Tensor& o);
// o (Q, dim) += P v of one head.
void add_values(const Backend& backend, const Tensor& p, const Tensor& kv, const HeadShape& shape,
                std::size_t sequence, std::size_t head, Tensor& o);
// dP of one head, before the softmax.                                                  // (Q, S)
Tensor probability_gradient(const Backend& backend, const Tensor& kv, const Tensor& d_o,
                            const HeadShape& shape, std::size_t sequence, std::size_t head);
// Gradient of one head. score_gradient makes, of dP, `ds` (Q, S), before rounding, and `along`, the
// sums of P dP of each row. query_gradient and key_value_gradient then write the blocks of the first head
// of a group and continue them for later heads, unscaled: queries in d_q, this rank's tokens (with
// `more`, added to what is there); keys and values in d_kv, all tokens.
struct ScoreGradient {
  Tensor ds, along;  // (Q, S), (Q, 1)
};
ScoreGradient score_gradient(const Tensor& p, Tensor dp, const HeadShape& shape,
                             std::size_t sequence);
// Writes the gradient that each row of a head gives to its sink's logit to a column of d_sinks
// (Q, heads); `taken` is the sink's probability in each row.
void sink_gradient(const Tensor& taken, const Tensor& along, const HeadShape& shape,
                   std::size_t sequence, std::size_t head, Tensor& d_sinks);
void query_gradient(const Backend& backend, const Tensor& ds, const Tensor& kv,
                    const HeadShape& shape, std::size_t sequence, std::size_t head, Tensor& d_q,
                    bool more = false);
void key_value_gradient(const Backend& backend, const Tensor& p, const Tensor& ds, const Tensor& q,
                        const Tensor& d_o, const HeadShape& shape, std::size_t sequence,
                        std::size_t head, Tensor& d_kv);
void scale_queries_and_keys(Tensor& d_qkv, const HeadShape& shape);

Tensor gelu_forward(const Tensor& x);
Tensor gelu_backward(const Tensor& x, const Tensor& dy);
Tensor swiglu_forward(const Tensor& x);                     // (T, 2H) -> (T, H)
Tensor swiglu_backward(const Tensor& x, const Tensor& dy);  // (T, 2H)

// add_row: x += bias, to every row. add_to: x += y. sum_of: x + y. sum_of_rows: y_j = sum_i x_ij.
void add_row(Tensor& x, std::span<const float> bias);
void add_to(Tensor& x, const Tensor& y);
Tensor sum_of(const Tensor& x, const Tensor& y);
Tensor sum_of_rows(const Tensor& x);              // (N, 1)
double sum_of_squares(std::span<const float> x);  // in FP64, in any order

struct AdamSettings {
  double rate, beta1, beta2, eps;
  int step;
  double weight_decay;
};
struct AdamState {
  Tensor master, average, square;
};
// Returns the next state of one parameter. It is written beside the old one, which a step's trace
// still has: copying it first and changing the copy would go over memory once more.
AdamState adam_step(const AdamSettings& how, const Tensor& gradient, const Tensor& master,
                    const Tensor& average, const Tensor& square);

}  // namespace plumb::kernels
