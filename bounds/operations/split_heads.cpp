// split_heads: the gradient of q and of kv, which pack_heads has packed
//
//   inputs       dqkv (T, F)                          outputs   dq, dkv
//   attributes   heads, kv_heads, head_dim; shared: the columns s of a key that all heads share
//   evaluate     copies: exact in every layout
#include "bounds/operations/packing.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> split(const Call<T>& call) {
  const PackedHeads at(call);
  const std::size_t shared = call.count("shared"), tokens = call[0].rows;
  refuse_wider(shared, at);
  std::vector<Matrix<T>> apart;
  apart.emplace_back(tokens, at.heads * at.dim);
  apart.emplace_back(tokens, at.kv_heads * (2 * at.dim - shared));
  take(call[0], of_queries(at), apart[0]);
  take(call[0], of_keys_and_values(at, shared), apart[1]);
  return apart;
}

void random_split(RandomCall& c) {
  c.one_part();
  random_heads(c, 0);
  give_packed(c);
}

}  // namespace

extern const Operation split_heads{
    .id = "split_heads",
    .evaluate = split<float>,
    .value = split<double>,
    .truth = split<BigFloat>,
    .tolerance = tolerance_by<split<RunningError>, split<ErrorMoments>>,
    .sums = SumOrder::none,
    .traits = {.exact = true},
    .schema = {.inputs = {{"dqkv", "T", "heads head_dim + 2 kv_heads head_dim"}},
               .outputs = {{"dq", "T", "heads head_dim"},
                           {"dkv", "T", "2 kv_heads head_dim - kv_heads shared"}},
               .attributes = {count("heads"), count("kv_heads"), count("head_dim"),
                              count("shared", 0)}},
    .examples = {.random = random_split, .shaped = shaped_split, .usual = "256x192"},
};

}  // namespace plumb::bounds
