// pack_heads: queries, keys and values that were made apart, in the layout that attention takes;
// a part of each key may be the same for all heads
//
//   inputs       q (T, heads head_dim), kv (T, kv_heads (2 head_dim - s)) [, shared (T, s)]
//   outputs      qkv (T, F)
//   attributes   heads, kv_heads, head_dim
//   layout       of F: see rope.cpp; of kv: per key/value head what its key has of its own, then
//                the value; the last s columns of every key are `shared`, s = 0 without it
//   evaluate     copies: exact in every layout
// split_heads: the gradient of q and of kv
//   inputs       dqkv (T, F)                          outputs   dq, dkv
//   attributes   also shared: s
//   evaluate     copies
// shared_key_grad: the gradient of `shared`, the sum of what each key has there
//   inputs       dqkv (T, F)                          outputs   dshared (T, s)
//   evaluate     key/value heads in `parts` slices; each a chain of FP32 additions; parts combined
//                on the wire
#include "bounds/operations/attention.hpp"
#include "bounds/operations/column_sums.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

// Columns of packed qkv that lie together in another tensor, too.
struct Run {
  std::size_t packed, apart, length;
};

std::vector<Run> of_queries(const PackedHeads& at) {
  std::vector<Run> runs;
  for (std::size_t h = 0; h < at.heads; ++h) runs.push_back({at.query(h), h * at.dim, at.dim});
  return runs;
}
std::vector<Run> of_keys_and_values(const PackedHeads& at, std::size_t shared) {
  std::vector<Run> runs;
  const std::size_t own = at.dim - shared;
  for (std::size_t h = 0, apart = 0; h < at.heads; h += at.ratio(), apart += own + at.dim) {
    runs.push_back({at.key(h), apart, own});
    runs.push_back({at.value(h), apart + own, at.dim});
  }
  return runs;
}
std::vector<Run> of_shared_keys(const PackedHeads& at, std::size_t shared) {
  std::vector<Run> runs;
  for (std::size_t h = 0; h < at.heads; h += at.ratio()) {
    runs.push_back({at.key(h) + at.dim - shared, 0, shared});
  }
  return runs;
}

template <class T>
void put(const Matrix<T>& apart, const std::vector<Run>& runs, Matrix<T>& packed) {
  for (std::size_t t = 0; t < packed.rows; ++t) {
    for (const Run& r : runs) {
      std::copy_n(apart.row(t) + r.apart, r.length, packed.row(t) + r.packed);
    }
  }
}
template <class T>
void take(const Matrix<T>& packed, const std::vector<Run>& runs, Matrix<T>& apart) {
  for (std::size_t t = 0; t < packed.rows; ++t) {
    for (const Run& r : runs) {
      std::copy_n(packed.row(t) + r.packed, r.length, apart.row(t) + r.apart);
    }
  }
}

template <class T>
std::vector<Matrix<T>> pack(const Call<T>& call) {
  const PackedHeads at(call);
  const std::size_t shared = call.inputs.size() > 2 ? call[2].cols : 0;
  Matrix<T> qkv(call[0].rows, (at.heads + 2 * at.kv_heads) * at.dim);
  put(call[0], of_queries(at), qkv);
  put(call[1], of_keys_and_values(at, shared), qkv);
  if (shared > 0) put(call[2], of_shared_keys(at, shared), qkv);
  return alone(std::move(qkv));
}

template <class T>
std::vector<Matrix<T>> split(const Call<T>& call) {
  const PackedHeads at(call);
  const std::size_t shared = call.count("shared"), tokens = call[0].rows;
  std::vector<Matrix<T>> apart;
  apart.emplace_back(tokens, at.heads * at.dim);
  apart.emplace_back(tokens, at.kv_heads * (2 * at.dim - shared));
  take(call[0], of_queries(at), apart[0]);
  take(call[0], of_keys_and_values(at, shared), apart[1]);
  return apart;
}

template <class T>
std::vector<Matrix<T>> sum_of_shared(const Call<T>& call) {
  const PackedHeads at(call);
  const std::size_t shared = call.count("shared"), tokens = call[0].rows;
  const std::vector<Run> runs = of_shared_keys(at, shared);
  Matrix<T> terms(runs.size(), tokens * shared);  // a row for each key, of all its tokens
  for (std::size_t k = 0; k < runs.size(); ++k) {
    for (std::size_t t = 0; t < tokens; ++t) {
      std::copy_n(call[0].row(t) + runs[k].packed, shared, terms.row(k) + t * shared);
    }
  }
  Matrix<T> sums = column_sums(terms, call.how, call.roundings);
  sums.rows = tokens;
  sums.cols = shared;
  return alone(std::move(sums));
}

}  // namespace

extern const Operation pack_heads{
    .id = "pack_heads",
    .evaluate = pack<float>,
    .value = pack<double>,
    .truth = pack<Truth>,
    .tolerance = tolerance_by<pack<Near>, pack<Moment>>,
    .sums = SumOrder::none,
    .traits = {.exact = true},
    .schema = {.inputs = {{"q", "T", "heads head_dim"},
                          {"kv", "T", "2 kv_heads head_dim - kv_heads s"},
                          optional({"shared", "T", "s"}, "s")},
               .outputs = {{"qkv", "T", "heads head_dim + 2 kv_heads head_dim"}},
               .attributes = {count("heads"), count("kv_heads"), count("head_dim")}},
};
extern const Operation split_heads{
    .id = "split_heads",
    .evaluate = split<float>,
    .value = split<double>,
    .truth = split<Truth>,
    .tolerance = tolerance_by<split<Near>, split<Moment>>,
    .sums = SumOrder::none,
    .traits = {.exact = true},
    .schema = {.inputs = {{"dqkv", "T", "heads head_dim + 2 kv_heads head_dim"}},
               .outputs = {{"dq", "T", "heads head_dim"},
                           {"dkv", "T", "2 kv_heads head_dim - kv_heads shared"}},
               .attributes = {count("heads"), count("kv_heads"), count("head_dim"),
                              count("shared", 0)}},
};
extern const Operation shared_key_grad{
    .id = "shared_key_grad",
    .evaluate = sum_of_shared<float>,
    .value = sum_of_shared<double>,
    .truth = sum_of_shared<Truth>,
    .tolerance = tolerance_by<sum_of_shared<Near>, sum_of_shared<Moment>, 0>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"dqkv", "T", "heads head_dim + 2 kv_heads head_dim"}},
               .outputs = {{"dshared", "T", "shared"}},
               .attributes = {count("heads"), count("kv_heads"), count("head_dim"),
                              count("shared", 0)}},
};

}  // namespace plumb::bounds
