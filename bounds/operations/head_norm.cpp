// head_norm: RMSNorm of each query and each key head of packed qkv, as rmsnorm evaluates it; values
// stay as they are
//
//   inputs       qkv (T, F), wq (head_dim, 1), wk (head_dim, 1)      y (T, F)
//   attributes   heads, kv_heads, head_dim, eps
//   layout       of F: see rope.cpp
//
// head_norm_grad (dqkv), head_norm_wgrad (dwq, dwk)
//
//   inputs       qkv, wq, wk, dy
//   evaluate     dwq = sum over query heads and tokens, dwk over key heads and tokens, head by
//                head; in parts: of the tokens of each rank that shares them, the heads in equal
//                slices
#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/attention.hpp"
#include "bounds/operations/column_sums.hpp"
#include "bounds/operations/rms.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

// A kind of heads of packed qkv: the queries, or the keys.
struct Kind {
  PackedHeads heads;
  bool keys;
  std::size_t count, dim;

  template <class T>
  Kind(const Call<T>& call, bool of_keys)
      : heads(call), keys(of_keys), count(of_keys ? heads.kv_heads : heads.heads), dim(heads.dim) {}
  std::size_t column(std::size_t h) const {
    return keys ? heads.key(h * heads.ratio()) : heads.query(h);
  }
};

// Heads below one another, each with all its tokens, and back.               // (heads T, head_dim)
template <class T>
Matrix<T> stacked(const Matrix<T>& qkv, const Kind& of) {
  Matrix<T> rows(of.count * qkv.rows, of.dim);
  for (std::size_t h = 0; h < of.count; ++h) {
    for (std::size_t t = 0; t < qkv.rows; ++t) {
      std::copy_n(qkv.row(t) + of.column(h), of.dim, rows.row(h * qkv.rows + t));
    }
  }
  return rows;
}
template <class T>
void put_back(const Matrix<T>& rows, const Kind& of, Matrix<T>& qkv) {
  for (std::size_t h = 0; h < of.count; ++h) {
    for (std::size_t t = 0; t < qkv.rows; ++t) {
      std::copy_n(rows.row(h * qkv.rows + t), of.dim, qkv.row(t) + of.column(h));
    }
  }
}

template <class T>
std::vector<Matrix<T>> forward(const Call<T>& call) {
  Matrix<T> y = call[0];
  for (const bool keys : {false, true}) {
    const Kind of(call, keys);
    const Matrix<T>& w = call[keys ? 2 : 1];
    put_back(rms_normalized(stacked(call[0], of), w, call.attribute("eps"), call.sums), of, y);
  }
  call.roundings.round(y, call.how.output);
  return as_outputs(std::move(y));
}

template <class T>
std::vector<Matrix<T>> grad(const Call<T>& call) {
  Matrix<T> d = call[3];
  for (const bool keys : {false, true}) {
    const Kind of(call, keys);
    const Matrix<T>& w = call[keys ? 2 : 1];
    put_back(rms_gradient(stacked(call[0], of), w, stacked(call[3], of), call.attribute("eps"),
                          call.sums),
             of, d);
  }
  call.roundings.round(d, call.how.output);
  return as_outputs(std::move(d));
}

// The rows of `stacked` in rank order: of the ranks that share tokens each has slices of its heads.
SumPartition over_heads(std::size_t heads, std::size_t tokens, const Evaluation& how) {
  const int contexts = how.parts % how.tokens.ranks == 0 ? how.tokens.ranks : 1;
  const SumPartition of_tokens = parting(tokens, {contexts, how.wire, how.output, how.tokens});
  SumPartition all;
  for (std::size_t c = 0; c + 1 < of_tokens.begins.size(); ++c) {
    const std::size_t from = of_tokens.begins[c], to = of_tokens.begins[c + 1];
    Evaluation slices = how;
    slices.parts = how.parts / contexts;
    slices.tokens.ranks = 1;
    const SumPartition of_heads = parting(heads * (to - from), slices);
    for (std::size_t p = 0; p + 1 < of_heads.begins.size(); ++p) {
      all.begins.push_back(all.order.size() + of_heads.begins[p]);
    }
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t i = from; i < to; ++i) all.order.push_back(h * tokens + of_tokens.order[i]);
    }
  }
  all.begins.push_back(all.order.size());
  return all;
}

template <class T>
std::vector<Matrix<T>> wgrad(const Call<T>& call) {
  std::vector<Matrix<T>> outputs;
  for (const bool keys : {false, true}) {
    const Kind of(call, keys);
    const Matrix<T> terms = rms_weight_terms(stacked(call[0], of), stacked(call[3], of),
                                             call.attribute("eps"), call.sums);
    outputs.push_back(column_sums(terms, over_heads(of.count, call[0].rows, call.how), call.how,
                                  call.roundings, call.sums));
  }
  return outputs;
}

void random_forward(RandomCall& c) {
  const std::size_t kv = c.draw.between(1, 2);
  const std::size_t heads = kv * c.draw.between(1, 3), dim = 2 * c.draw.between(1, 8);
  c.e.attributes = {{"heads", heads}, {"kv_heads", kv}, {"head_dim", dim}, {"eps", 1e-5}};
  c.give(c.rows, (heads + 2 * kv) * dim);
  for (int w = 0; w < 2; ++w) c.moderate(dim, 1, 0.3, 1);
}
void random_grad(RandomCall& c) {
  random_forward(c);
  c.give(c.rows, c.e.inputs[0].cols);
}

// A query head, a key and a value, with the weights of a norm of their size.
void shaped_forward(Maker& m) {
  m.need_columns(6, "ROWSxF with F = 3 head_dim, head_dim even");
  const std::size_t dim = m.cols / 3;
  m.table();
  for (int w = 0; w < 2; ++w) m.weights(dim);
  m.e.attributes = {
      {"heads", 1}, {"kv_heads", 1}, {"head_dim", static_cast<double>(dim)}, {"eps", 1e-5}};
}
void shaped_grad(Maker& m) {
  shaped_forward(m);
  m.table();
}

}  // namespace

extern const Operation head_norm{
    .id = "head_norm",
    .evaluate = forward<float>,
    .value = forward<double>,
    .truth = forward<BigFloat>,
    .tolerance = tolerance_of_squares_by<forward<RunningError>, forward<ErrorMoments>, 0>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"qkv", "T", "heads head_dim + 2 kv_heads head_dim"},
                          {"wq", "head_dim", "1"},
                          {"wk", "head_dim", "1"}},
               .outputs = {{"y", "T", "heads head_dim + 2 kv_heads head_dim"}},
               .attributes = {count("heads"), count("kv_heads"), count("head_dim"), real("eps")}},
    .examples = {.random = [](RandomCall& c) { random_forward(c), c.one_part(); },
                 .shaped = shaped_forward,
                 .usual = "256x192"},
    .sums_as_asked = true,
};
extern const Operation head_norm_grad{
    .id = "head_norm_grad",
    .evaluate = grad<float>,
    .value = grad<double>,
    .truth = grad<BigFloat>,
    .tolerance = tolerance_of_squares_by<grad<RunningError>, grad<ErrorMoments>, 0, 3>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"qkv", "T", "heads head_dim + 2 kv_heads head_dim"},
                          {"wq", "head_dim", "1"},
                          {"wk", "head_dim", "1"},
                          {"dy", "T", "heads head_dim + 2 kv_heads head_dim"}},
               .outputs = {{"dqkv", "T", "heads head_dim + 2 kv_heads head_dim"}},
               .attributes = {count("heads"), count("kv_heads"), count("head_dim"), real("eps")}},
    .examples = {.random = [](RandomCall& c) { random_grad(c), c.one_part(); },
                 .shaped = shaped_grad,
                 .usual = "256x192"},
    .sums_as_asked = true,
};
extern const Operation head_norm_wgrad{
    .id = "head_norm_wgrad",
    .evaluate = wgrad<float>,
    .value = wgrad<double>,
    .truth = wgrad<BigFloat>,
    .tolerance = tolerance_of_squares_by<wgrad<RunningError>, wgrad<ErrorMoments>, 0, 3>,
    .schema = {.inputs = {{"qkv", "T", "heads head_dim + 2 kv_heads head_dim"},
                          {"wq", "head_dim", "1"},
                          {"wk", "head_dim", "1"},
                          {"dy", "T", "heads head_dim + 2 kv_heads head_dim"}},
               .outputs = {{"dwq", "head_dim", "1"}, {"dwk", "head_dim", "1"}},
               .attributes = {count("heads"), count("kv_heads"), count("head_dim"), real("eps")},
               .dealt = "T"},
    .examples = {.random = [](RandomCall& c) { random_grad(c), c.shard_tokens(c.rows); },
                 .shaped = shaped_grad,
                 .usual = "4096x48"},
    .sums_as_asked = true,
};

}  // namespace plumb::bounds
