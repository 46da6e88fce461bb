// bounds/operations/attention.hpp: where the heads of packed qkv lie; the tolerances of attention.
//
// The layout of the F columns stands in rope.cpp. Blocks are views, (S, head_dim) or transposed.
// Where the inputs beside qkv (attention.cpp) stand in the call; 0: there is none.
//
// TESTED   tests/bounds/operations/attention_test.cpp
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "bounds/operation.hpp"
#include "bounds/operations/index.hpp"
#include "bounds/sees.hpp"
#include "number/philox.hpp"
#include "number/product.hpp"

namespace plumb::bounds {

// The first columns of heads.
struct PackedHeads {
  std::size_t heads, kv_heads, dim;

  template <class AnyCall>
  explicit PackedHeads(const AnyCall& call)
      : heads(call.count("heads")), kv_heads(call.count("kv_heads")), dim(call.count("head_dim")) {
    if (kv_heads == 0 || heads == 0 || heads % kv_heads != 0 || dim == 0) {
      throw std::invalid_argument("key/value heads divide the heads, and have columns");
    }
  }
  std::size_t ratio() const { return heads / kv_heads; }
  std::size_t query(std::size_t h) const {
    return ((h / ratio()) * (ratio() + 2) + h % ratio()) * dim;
  }
  // The first column of the key of the group that query head h belongs to.
  std::size_t key(std::size_t h) const { return ((h / ratio()) * (ratio() + 2) + ratio()) * dim; }
  std::size_t value(std::size_t h) const { return key(h) + dim; }
};

inline bool is_set(const Attributes& attributes, std::string_view flag) {
  const auto found = attributes.find(flag);
  return found != attributes.end() && found->second != 0;
}

inline double attribute_or(const Attributes& attributes, std::string_view name, double otherwise) {
  const auto found = attributes.find(name);
  return found == attributes.end() ? otherwise : found->second;
}

struct Heads : PackedHeads {
  std::size_t sequence;
  std::size_t sinks = 0, places = 0;
  double rate;  // of probabilities that chance drops
  std::uint64_t mask;

  // `others`: the number of inputs before those that an attribute announces.
  template <class AnyCall>
  Heads(const AnyCall& call, std::size_t others)
      : PackedHeads(call),
        sequence(call.count("sequence")),
        rate(attribute_or(call.attributes, "rate", 0)),
        mask(static_cast<std::uint64_t>(attribute_or(call.attributes, "mask", 0))) {
    if (is_set(call.attributes, "sinks")) sinks = others++;
    if (is_set(call.attributes, "documents")) places = others;
  }
  template <class T>
  View<T> block(const Matrix<T>& m, std::size_t b, std::size_t column, bool transposed) const {
    const T* data = m.row(b * sequence) + column;
    return transposed ? View<T>{data, dim, sequence, m.cols, true}
                      : View<T>{data, sequence, dim, m.cols, false};
  }
  // The first token that a token sees, both as rows of qkv: where its document begins.
  template <class AnyCall>
  std::size_t first_seen(const AnyCall& call, std::size_t token) const {
    if (places == 0) return token / sequence * sequence;
    return token - index_of(call[places].values[token], token % sequence + 1,
                            "attention: the place of a token in its document");
  }
  // Is the probability kept that a token gives to a key of its sequence in one head?
  bool keeps(std::size_t token, std::size_t head, std::size_t key_of_sequence) const {
    return uniform(mask, (token * heads + head) * sequence + key_of_sequence) >= rate;
  }
  // What kept ones are multiplied by, an FP32 number.
  double of_kept() const { return static_cast<double>(static_cast<float>(1 / (1 - rate))); }
  template <class T>
  T scale() const {
    using std::sqrt;
    return T(1) / sqrt(static_cast<T>(dim));
  }
};

// Formulas of attention and of its gradient: as promised; `flash`, online over blocks of keys; and
// `composed`, of three operations, whose scores are stored.
inline constexpr List<Form> attention_forms{{"promised", true}, {"flash"}, {"composed"}};
enum class AttentionForm : std::size_t { promised, flash, composed };

// How a row of a softmax is taken beyond what is promised.
struct SoftmaxForm {
  bool any_order = false;    // of the sum
  bool online = false;       // scaled anew whenever there is a larger score
  bool from_stored = false;  // p = exp(s - l), l = ln sum of all, kept in FP32 (in a gradient)
};

// A row of n >= 1 probabilities and how far FP32's may be away, before any cast, from scores that
// FP32 knows up to `score_error`. attention_tolerance.cpp has the derivation.
void softmax_with_error(const double* score, const double* score_error, std::size_t n, double* p,
                        double* error, const SoftmaxForm& form = {});

// Worst cases for all but rings and but for what attention.cpp refuses.
Outcome<Tolerance> attention_tolerance(const ToleranceCall& call);
Outcome<Tolerance> attention_grad_tolerance(const ToleranceCall& call);

}  // namespace plumb::bounds
