// attention: causal softmax attention per head, grouped queries, and its gradient
//
//   inputs   qkv (T, F)        o (T, heads head_dim)        layout of F: see rope.cpp
//   attributes   heads, kv_heads, head_dim, sequence
//   evaluate   s = (q . k) / sqrt(head_dim); p = exp(s - max) / sum exp(s - max); P rounded to the
//              output format; o = sum_j P_j v_j; o rounded. Chains run over ascending index.
// attention_grad: dqkv (T, F) from qkv and do
//   dP = do . v;  D = sum_j P_j dP_j;  dS = P (dP - D), rounded to the output format;
//   dq = (sum_j dS_j k_j) / sqrt(head_dim);  dk and dv: one chain through the query heads of a
//   group, in each part over the queries of one rank; parts are combined before the scale
//   moments    what a row shares (largest, sum, D, each exponential, P and dP) is a source of its
//   own
#include <algorithm>
#include <cmath>

#include "bounds/operations/attention.hpp"
#include "bounds/tolerance.hpp"

namespace plumb {
namespace {

// Rounded probabilities of head h in sequence b.                                       // (S, S)
template <class T>
Matrix<T> probabilities(const Call<T>& call, const Heads& of, std::size_t b, std::size_t h) {
  Matrix<T> p =
      product(of.block(call[0], b, of.query(h), false), of.block(call[0], b, of.key(h), true));
  using std::exp;
  for (std::size_t i = 0; i < p.rows; ++i) {
    T* row = p.row(i);
    for (std::size_t j = 0; j <= i; ++j) row[j] *= of.scale<T>();
    const T largest = shared(*std::max_element(row, row + i + 1));
    T sum = 0;
    for (std::size_t j = 0; j <= i; ++j) {
      row[j] = shared(exp(row[j] - largest));
      sum += row[j];
    }
    sum = shared(sum);
    for (std::size_t j = 0; j < p.cols; ++j) row[j] = j <= i ? row[j] / sum : T(0);
  }
  call.roundings.round(p, call.how.output);
  return p;
}

template <class T>
std::vector<Matrix<T>> forward(const Call<T>& call) {
  const Heads of(call);
  Matrix<T> o(call[0].rows, of.heads * of.dim);
  for (std::size_t b = 0; b < o.rows / of.sequence; ++b) {
    for (std::size_t h = 0; h < of.heads; ++h) {
      const Matrix<T> p = probabilities(call, of, b, h);
      multiply(view(p), of.block(call[0], b, of.value(h), false),
               o.row(b * of.sequence) + h * of.dim, o.cols);
    }
  }
  call.roundings.round(o, call.how.output);
  return {std::move(o)};
}

// dS of one head: P (dP - D), masked entries zero.                                     // (S, S)
template <class T>
Matrix<T> score_gradients(const Call<T>& call, Matrix<T>& p, Matrix<T> dp) {
  using std::fma;
  for (T& x : p.values) x = shared(x);
  for (T& x : dp.values) x = shared(x);
  for (std::size_t i = 0; i < p.rows; ++i) {
    T along = 0;
    for (std::size_t j = 0; j <= i; ++j) along = fma(p(i, j), dp(i, j), along);
    along = shared(along);
    for (std::size_t j = 0; j < p.cols; ++j) {
      dp(i, j) = j <= i ? p(i, j) * (dp(i, j) - along) : T(0);
    }
  }
  call.roundings.round(dp, call.how.output);
  return dp;
}

// Which part has the queries of each row. (A draw leaves a key all its queries on one rank where
// the candidate does: only the cuts of the zigzag move.)
std::vector<int> parts_of_rows(std::size_t n, const Evaluation& how) {
  std::vector<int> part(n, 0);
  const auto [order, begins] = parting(n, how);
  for (std::size_t p = 0; p + 1 < begins.size(); ++p) {
    for (std::size_t i = begins[p]; i < begins[p + 1]; ++i) part[order[i]] = static_cast<int>(p);
  }
  return part;
}

// What the queries of one part give to dqkv, unscaled: other rows of P and dS are zero.
template <class T>
Matrix<T> gradient_part(const Call<T>& call, const std::vector<int>& part_of, int part) {
  const Heads of(call);
  const Matrix<T>& qkv = call[0];
  const Matrix<T>& d_out = call[1];
  Matrix<T> d(qkv.rows, qkv.cols);
  for (std::size_t b = 0; b < d.rows / of.sequence; ++b) {
    T* rows = d.row(b * of.sequence);
    for (std::size_t h = 0; h < of.heads; ++h) {
      const bool later = h % of.ratio() != 0;  // continues the chain of its group
      Matrix<T> p = probabilities(call, of, b, h);
      const View<T> d_o = of.block(d_out, b, h * of.dim, false);
      Matrix<T> ds = score_gradients(call, p, product(d_o, of.block(qkv, b, of.value(h), true)));
      for (std::size_t i = 0; i < p.rows; ++i) {
        if (part_of[b * of.sequence + i] == part) continue;
        std::fill_n(p.row(i), p.cols, T(0));
        std::fill_n(ds.row(i), ds.cols, T(0));
      }
      multiply(view(ds), of.block(qkv, b, of.key(h), false), rows + of.query(h), d.cols);
      // A row of P and dS goes into dq as a whole, into a row of dk and dv by one element.
      for (T& x : ds.values) x = apart(x);
      for (T& x : p.values) x = apart(x);
      multiply(view(ds, true), of.block(qkv, b, of.query(h), false), rows + of.key(h), d.cols,
               later);
      multiply(view(p, true), d_o, rows + of.value(h), d.cols, later);
    }
  }
  return d;
}

template <class T>
std::vector<Matrix<T>> grad(const Call<T>& call) {
  const Heads of(call);
  const std::vector<int> part_of = parts_of_rows(call[0].rows, call.how);
  std::vector<Matrix<T>> parts;
  for (int p = 0; p < call.how.parts; ++p) parts.push_back(gradient_part(call, part_of, p));
  Matrix<T> d = combined(std::move(parts), call.how, call.roundings);
  const std::size_t group = of.ratio() + 2;
  for (std::size_t t = 0; t < d.rows; ++t) {
    for (std::size_t j = 0; j < d.cols; ++j) {
      if (j / of.dim % group != group - 1) d(t, j) *= of.scale<T>();  // all but values
    }
  }
  call.roundings.round(d, call.how.output);
  return {std::move(d)};
}

// Each element of a row of P knows how it moves with all others: memory grows with the cube.
constexpr std::size_t most_keys = 256;

// Moments are those of the chains as promised, the worst case that of any order.
template <auto WorstCase, MomentEvaluation Moments>
Outcome<Tolerance> tolerance(const ToleranceCall& call) {
  if (call.mode != Mode::moments) return WorstCase(call);
  if (call.count("sequence") > most_keys) {
    return Refusal{Why::unsupported, "moments of attention are derived for sequences of up to " +
                                         std::to_string(most_keys) + " tokens"};
  }
  return tolerance_by_evaluation(call, {nullptr, Moments}, {0});
}

}  // namespace

extern const Operation attention{"attention", forward<float>, forward<double>, forward<Truth>,
                                 tolerance<attention_tolerance, forward<Moment>>};
extern const Operation attention_grad{"attention_grad", grad<float>, grad<double>, grad<Truth>,
                                      tolerance<attention_grad_tolerance, grad<Moment>>};

}  // namespace plumb
