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
#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
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

// Adds attributes; with parts each rank has a key.
void random_heads(RandomCall& c, std::size_t least_shared) {
  const std::size_t kv = static_cast<std::size_t>(c.e.how.parts) * c.draw.between(1, 3);
  const std::size_t heads = kv * c.draw.between(1, 2), dim = 2 * c.draw.between(1, 4);
  const std::size_t shared = c.draw.between(least_shared, dim - 1);
  c.e.attributes = {{"heads", heads}, {"kv_heads", kv}, {"head_dim", dim}, {"shared", shared}};
}
std::size_t size(const Example& e, const char* name) {
  return static_cast<std::size_t>(e.attributes.at(name));
}
void give_packed(RandomCall& c) {
  c.give(c.rows, (size(c.e, "heads") + 2 * size(c.e, "kv_heads")) * size(c.e, "head_dim"));
}

void random_pack(RandomCall& c) {
  c.one_part();
  random_heads(c, 0);
  const std::size_t dim = size(c.e, "head_dim"), shared = size(c.e, "shared");
  c.give(c.rows, size(c.e, "heads") * dim);
  c.give(c.rows, size(c.e, "kv_heads") * (2 * dim - shared));
  if (shared > 0) c.give(c.rows, shared);
}
void random_split(RandomCall& c) {
  c.one_part();
  random_heads(c, 0);
  give_packed(c);
}
void random_shared(RandomCall& c) {
  random_heads(c, 1);
  give_packed(c);
}

// Heads of two columns; of a key the second is shared.
void shaped_heads(Maker& m) {
  m.need_columns(6, "ROWSxF with F = 6 heads");
  const auto n = static_cast<double>(m.cols / 6);
  m.e.attributes = {{"heads", n}, {"kv_heads", n}, {"head_dim", 2}, {"shared", 1}};
}
void shaped_split(Maker& m) {
  shaped_heads(m);
  m.table();
}
void shaped_pack(Maker& m) {
  shaped_heads(m);
  const std::size_t n = m.cols / 6;
  for (const std::size_t columns : {2 * n, 3 * n, std::size_t(1)}) m.drawn(m.rows, columns);
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
    .examples = {.random = random_pack, .shaped = shaped_pack, .usual = "256x192"},
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
    .examples = {.random = random_split, .shaped = shaped_split, .usual = "256x192"},
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
    .examples = {.random = random_shared, .shaped = shaped_split, .usual = "256x192"},
};

}  // namespace plumb::bounds
