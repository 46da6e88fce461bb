// pack_heads: queries, keys and values that were made apart, in the layout that attention takes;
// a part of each key may be the same for all heads
//
//   inputs       q (T, heads head_dim), kv (T, kv_heads (2 head_dim - s)) [, shared (T, s)]
//   outputs      qkv (T, F)
//   attributes   heads, kv_heads, head_dim
//   layout       of F: see rope.cpp; of kv: per key/value head what its key has of its own, then
//                the value; the last s columns of every key are `shared`, s = 0 without it
//   evaluate     copies: exact in every layout
#include "bounds/operations/packing.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> pack(const Call<T>& call) {
  const PackedHeads at(call);
  const std::size_t shared = call.inputs.size() > 2 ? call[2].cols : 0;
  refuse_wider(shared, at);
  Matrix<T> qkv(call[0].rows, (at.heads + 2 * at.kv_heads) * at.dim);
  put(call[0], of_queries(at), qkv);
  put(call[1], of_keys_and_values(at, shared), qkv);
  if (shared > 0) put(call[2], of_shared_keys(at, shared), qkv);
  return as_outputs(std::move(qkv));
}

void random_pack(RandomCall& c) {
  c.one_part();
  random_heads(c, 0);
  const std::size_t dim = size(c.e, "head_dim"), shared = size(c.e, "shared");
  c.give(c.rows, size(c.e, "heads") * dim);
  c.give(c.rows, size(c.e, "kv_heads") * (2 * dim - shared));
  if (shared > 0) c.give(c.rows, shared);
}

void shaped_pack(Maker& m) {
  shaped_packing(m);
  const std::size_t n = m.cols / 6;
  for (const std::size_t columns : {2 * n, 3 * n, std::size_t(1)}) m.drawn(m.rows, columns);
}

}  // namespace

extern const Operation pack_heads{
    .id = "pack_heads",
    .evaluate = pack<float>,
    .value = pack<double>,
    .truth = pack<BigFloat>,
    .tolerance = tolerance_by<pack<RunningError>, pack<ErrorMoments>>,
    .sums = SumOrder::none,
    .traits = {.exact = true},
    .schema = {.inputs = {{"q", "T", "heads head_dim"},
                          {"kv", "T", "2 kv_heads head_dim - kv_heads s"},
                          optional({"shared", "T", "s"}, "s")},
               .outputs = {{"qkv", "T", "heads head_dim + 2 kv_heads head_dim"}},
               .attributes = {count("heads"), count("kv_heads"), count("head_dim")}},
    .examples = {.random = random_pack, .shaped = shaped_pack, .usual = "256x192"},
};

}  // namespace plumb::bounds
