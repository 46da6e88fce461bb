// shared_key_grad: the gradient of pack_heads' `shared`, the sum of what each key has there
//
//   inputs       dqkv (T, F)                          outputs   dshared (T, s)
//   attributes   heads, kv_heads, head_dim; shared: s
//   evaluate     key/value heads in `parts` slices; each a chain of FP32 additions; parts combined
//                on the wire
#include "bounds/operations/column_sums.hpp"
#include "bounds/operations/packing.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> sum_of_shared(const Call<T>& call) {
  const PackedHeads at(call);
  const std::size_t shared = call.count("shared"), tokens = call[0].rows;
  refuse_wider(shared, at);
  const std::vector<Run> runs = of_shared_keys(at, shared);
  Matrix<T> terms(runs.size(), tokens * shared);  // a row for each key, of all its tokens
  for (std::size_t k = 0; k < runs.size(); ++k) {
    for (std::size_t t = 0; t < tokens; ++t) {
      std::copy_n(call[0].row(t) + runs[k].packed, shared, terms.row(k) + t * shared);
    }
  }
  Matrix<T> sums = column_sums(terms, call.how, call.roundings, call.sums);
  sums.rows = tokens;
  sums.cols = shared;
  return as_outputs(std::move(sums));
}

void random_shared(RandomCall& c) {
  random_heads(c, 1);
  give_packed(c);
}

}  // namespace

extern const Operation shared_key_grad{
    .id = "shared_key_grad",
    .evaluate = sum_of_shared<float>,
    .value = sum_of_shared<double>,
    .truth = sum_of_shared<BigFloat>,
    .tolerance = tolerance_by<sum_of_shared<RunningError>, sum_of_shared<ErrorMoments>, 0>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"dqkv", "T", "heads head_dim + 2 kv_heads head_dim"}},
               .outputs = {{"dshared", "T", "shared"}},
               .attributes = {count("heads"), count("kv_heads"), count("head_dim"),
                              count("shared", 0)}},
    .examples = {.random = random_shared, .shaped = shaped_split, .usual = "256x192"},
    .sums_as_asked = true,
};

}  // namespace plumb::bounds
