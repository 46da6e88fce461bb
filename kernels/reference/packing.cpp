#include "kernels/ops.hpp"

namespace plumb::kernels {
namespace {

// The first columns of one group in q and kv.
struct Group {
  HeadColumns packed;  // with its first query
  std::size_t q, queries, kv, own;
};

Group group_of(const HeadShape& s, std::size_t g, std::size_t shared) {
  const std::size_t ratio = s.heads / s.kv_heads, own = s.dim - shared;
  return {columns_of(s, g * ratio), g * ratio * s.dim, ratio * s.dim, g * (own + s.dim), own};
}

}  // namespace

Tensor pack_heads(const HeadParts& parts, const HeadShape& s) {
  const std::size_t shared = parts.shared.cols;
  Tensor qkv(parts.q.rows, (s.heads + 2 * s.kv_heads) * s.dim);
  for (std::size_t t = 0; t < qkv.rows; ++t) {
    for (std::size_t g = 0; g < s.kv_heads; ++g) {
      const Group of = group_of(s, g, shared);
      const float* kv = parts.kv.row(t) + of.kv;
      std::copy_n(parts.q.row(t) + of.q, of.queries, qkv.row(t) + of.packed.query);
      std::copy_n(kv, of.own, qkv.row(t) + of.packed.key);
      if (shared > 0) std::copy_n(parts.shared.row(t), shared, qkv.row(t) + of.packed.key + of.own);
      std::copy_n(kv + of.own, s.dim, qkv.row(t) + of.packed.value);
    }
  }
  return qkv;
}

HeadParts split_heads(const Tensor& d_qkv, const HeadShape& s, std::size_t shared) {
  const std::size_t tokens = d_qkv.rows;
  HeadParts d{Tensor(tokens, s.heads * s.dim), Tensor(tokens, s.kv_heads * (2 * s.dim - shared)),
              Tensor(tokens, shared)};
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t g = 0; g < s.kv_heads; ++g) {
      const Group of = group_of(s, g, shared);
      const float* key = d_qkv.row(t) + of.packed.key;
      float* kv = d.kv.row(t) + of.kv;
      std::copy_n(d_qkv.row(t) + of.packed.query, of.queries, d.q.row(t) + of.q);
      std::copy_n(key, of.own, kv);
      std::copy_n(d_qkv.row(t) + of.packed.value, s.dim, kv + of.own);
      for (std::size_t i = 0; i < shared; ++i) d.shared.row(t)[i] += key[of.own + i];
    }
  }
  return d;
}

}  // namespace plumb::kernels
