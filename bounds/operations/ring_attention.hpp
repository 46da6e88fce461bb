// bounds/operations/ring_attention.hpp: attention of ranks that each have the queries, keys and
// values of some tokens (how.tokens), where keys and values go round: turn s brings a rank those of
// the rank s before it, its own first.
//
//   (dropout of P as in attention.cpp: before P v, and of dP)
//   forward    per turn, for the keys that a query sees: m' = max(m, max s); the sums so far are
//              multiplied by exp(m - m'), where m' > m; p = exp(s - m'), its sum a chain that goes
//              on; P = p rounded to the output format; o a chain of P v that goes on. A sink comes
//              after the last turn and is no P. Then o / sum, rounded to the output format.
//   backward   L = m + log sum
//              D = do . o, o as stored
//              P = exp(s - L), rounded to the output format; dP, dS as in attention.cpp
//              dq: a chain from turn to turn
//              dk, dv of a rank's tokens: each rank's part is one chain through a group's heads;
//              parts are added in the order in which they come by
//              dsinks = - exp(sink - L) D
// The softmax is not divided before P is rounded, so that other bits are lost than on one rank: P
// is rounded beside numbers that differ by a factor from row to row. A draw (how.tokens.key) takes
// all exponentials of a row about a number up to ln 2 above the largest score (twins.md M4).
//
// TESTED   tests/bounds/operations/value_test.cpp, tests/bounds/operations/token_sharding_test.cpp
#pragma once

#include <cmath>

#include "bounds/operations/attention.hpp"
#include "bounds/operations/blockwise.hpp"
#include "bounds/sees.hpp"
#include "number/exponential.hpp"
#include "number/philox.hpp"

namespace plumb::bounds {

template <class T>
class Ring {
 public:
  Ring(const Call<T>& call, std::size_t others) : call_(call), of_(call, others) {
    const auto [order, begins] = parting(call[0].rows, call.how);
    for (std::size_t r = 0; r + 1 < begins.size(); ++r) {
      tokens_.emplace_back(call[0].rows / of_.sequence);
      for (std::size_t i = begins[r]; i < begins[r + 1]; ++i) {
        tokens_[r][order[i] / of_.sequence].push_back(order[i]);
      }
    }
  }

  // The result of every query with all keys.                  o (T, heads head_dim), L (T, heads)
  struct Output {
    Matrix<T> o, lse;
  };
  Output forward() const {
    using std::log;
    Output y{Matrix<T>(call_[0].rows, of_.heads * of_.dim), Matrix<T>(call_[0].rows, of_.heads)};
    each([&](std::size_t b, std::size_t h, std::size_t r) {
      const std::vector<std::size_t>& mine = tokens_[r][b];
      const Running all = all_turns(b, h, r);
      for (std::size_t i = 0; i < mine.size(); ++i) {
        const T sum = with_named_error(all.sum[i]);
        for (std::size_t c = 0; c < of_.dim; ++c) y.o(mine[i], h * of_.dim + c) = all.o(i, c) / sum;
        y.lse(mine[i], h) = all.largest[i] + log(sum);
      }
    });
    call_.roundings.round(y.o, call_.how.output);
    return y;
  }

  std::vector<Matrix<T>> grad() const {
    const Output y = forward();
    Matrix<T> d(call_[0].rows, call_[0].cols), d_sinks(of_.sinks == 0 ? 0 : d.rows, of_.heads);
    Matrix<T> along = row_products(y.o);
    for (std::size_t b = 0; b < sequences(); ++b) {
      for (std::size_t g = 0; g < of_.kv_heads; ++g) group_gradient(b, g, y.lse, along, d);
    }
    for (std::size_t e = 0; e < d.size(); ++e) {
      const std::size_t group = of_.ratio() + 2;
      if (e % d.cols / of_.dim % group != group - 1) d.values[e] *= of_.scale<T>();
    }
    for (std::size_t e = 0; e < d_sinks.size(); ++e) {
      const T& sink = call_[of_.sinks].values[e % of_.heads];
      d_sinks.values[e] = -(exp(sink - y.lse.values[e]) * along.values[e]);
    }
    call_.roundings.round(d, call_.how.output);
    std::vector<Matrix<T>> outputs = as_outputs(std::move(d));
    if (of_.sinks > 0) {
      call_.roundings.round(d_sinks, call_.how.output);
      outputs.push_back(std::move(d_sinks));
    }
    return outputs;
  }

 private:
  struct Place {
    std::size_t sequence, head, rank;
  };
  struct Running {
    Matrix<T> o;
    std::vector<T> largest, sum;
  };

  std::size_t sequences() const { return call_[0].rows / of_.sequence; }
  std::size_t ranks() const { return tokens_.size(); }
  std::size_t at_turn(std::size_t r, std::size_t s) const { return (r + ranks() - s) % ranks(); }
  template <class Work>
  void each(const Work& work) const {
    for (std::size_t b = 0; b < sequences(); ++b) {
      for (std::size_t h = 0; h < of_.heads; ++h) {
        for (std::size_t r = 0; r < ranks(); ++r) work(b, h, r);
      }
    }
  }

  Matrix<T> block(const Matrix<T>& x, std::size_t b, std::size_t r, std::size_t column) const {
    Matrix<T> y(tokens_[r][b].size(), of_.dim);
    for (std::size_t i = 0; i < y.rows; ++i) {
      std::copy_n(x.row(tokens_[r][b][i]) + column, y.cols, y.row(i));
    }
    return y;
  }

  // Scores of the queries of rank r and the keys of rank `from`.                     // (Q, K)
  Matrix<T> scores(std::size_t b, std::size_t h, std::size_t r, std::size_t from) const {
    const Matrix<T> q = block(call_[0], b, r, of_.query(h));
    const Matrix<T> k = transposed(block(call_[0], b, from, of_.key(h)));
    Matrix<T> s(q.rows, k.cols);
    add_product(q, k, s);
    for (T& x : s.values) x = with_named_error(x * of_.scale<T>());
    return s;
  }
  bool sees(std::size_t query, std::size_t key) const {
    return key <= query && key >= of_.first_seen(call_, query);
  }

  Running all_turns(std::size_t b, std::size_t h, std::size_t r) const {
    const std::size_t n = tokens_[r][b].size();
    Running all{Matrix<T>(n, of_.dim), std::vector<T>(n), std::vector<T>(n)};
    for (std::size_t s = 0; s < ranks(); ++s) {
      const std::size_t from = at_turn(r, s);
      Matrix<T> p = scores(b, h, r, from);
      for (std::size_t i = 0; i < n; ++i) take_in(p.row(i), {b, h, r}, i, from, all);
      call_.roundings.round(p, call_.how.output);
      add_product(thinned(std::move(p), {b, h, r}, from), block(call_[0], b, from, of_.value(h)),
                  all.o);
    }
    for (std::size_t i = 0; of_.sinks > 0 && i < n; ++i) {
      const T& sink = call_[of_.sinks].values[h];
      bring_down(sink, i, all);
      all.sum[i] += exp(sink - all.largest[i]);
    }
    return all;
  }

  // Rescales what was summed so far if a larger score has come.
  void bring_down(const T& score, std::size_t i, Running& all) const {
    if (!may_exceed(all.largest[i], score)) return;
    const T m = with_named_error(larger(all.largest[i], score));
    const T down = with_named_error(exp(all.largest[i] - m));
    all.sum[i] *= down;
    for (std::size_t c = 0; c < of_.dim; ++c) all.o(i, c) *= down;
    all.largest[i] = m;
  }

  // Turns a row of scores into exponentials.
  void take_in(T* s, const Place& at, std::size_t i, std::size_t from, Running& all) const {
    const auto [b, h, r] = at;
    const std::size_t query = tokens_[r][b][i];
    const std::vector<std::size_t>& keys = tokens_[from][b];
    const T* largest = nullptr;
    T block{};
    for (std::size_t j = 0; j < keys.size(); ++j) {
      if (!sees(query, keys[j])) continue;
      block = largest == nullptr ? s[j] : larger(block, s[j]);
      largest = &block;
    }
    if (largest != nullptr) block = above(block, query, h);
    if (largest != nullptr && from == r) all.largest[i] = block;  // the first turn
    if (largest != nullptr && from != r) bring_down(block, i, all);
    for (std::size_t j = 0; j < keys.size(); ++j) {
      s[j] = sees(query, keys[j]) ? with_named_error(exp(s[j] - all.largest[i])) : T(0);
      if (sees(query, keys[j])) all.sum[i] += s[j];
    }
  }

  // D of each query and head.                                                       // (T, heads)
  Matrix<T> row_products(const Matrix<T>& o) const {
    using std::fma;
    Matrix<T> along(o.rows, of_.heads);
    for (std::size_t e = 0; e < along.size(); ++e) {
      const std::size_t first = e * of_.dim;
      for (std::size_t c = first; c < first + of_.dim; ++c) {
        along.values[e] = fma(call_[1].values[c], o.values[c], along.values[e]);
      }
      along.values[e] = with_named_error(along.values[e]);
    }
    return along;
  }

  // P of a block, and dS.                                                            // (Q, K)
  std::pair<Matrix<T>, Matrix<T>> block_gradient(std::size_t b, std::size_t h, std::size_t r,
                                                 std::size_t from, const Matrix<T>& lse,
                                                 const Matrix<T>& along) const {
    const std::vector<std::size_t>&mine = tokens_[r][b], &keys = tokens_[from][b];
    Matrix<T> p = scores(b, h, r, from), ds(p.rows, p.cols);
    for (std::size_t e = 0; e < p.size(); ++e) {
      const std::size_t query = mine[e / p.cols];
      p.values[e] = sees(query, keys[e % p.cols]) ? exp(p.values[e] - lse(query, h)) : T(0);
    }
    call_.roundings.round(p, call_.how.output);
    for (T& x : p.values) x = with_named_error(x);
    add_product(block(call_[1], b, r, h * of_.dim),
                transposed(block(call_[0], b, from, of_.value(h))), ds);
    if (of_.rate > 0) thin(ds, {b, h, r}, from);
    for (std::size_t e = 0; e < ds.size(); ++e) {
      const std::size_t query = mine[e / p.cols];
      ds.values[e] =
          sees(query, keys[e % p.cols]) ? p.values[e] * (ds.values[e] - along(query, h)) : T(0);
    }
    call_.roundings.round(ds, call_.how.output);
    return {thinned(std::move(p), {b, h, r}, from), std::move(ds)};
  }

  // Multiplies what dropout keeps of a block, and drops the rest.                      // (Q, K)
  void thin(Matrix<T>& p, const Place& at, std::size_t from) const {
    const auto [b, h, r] = at;
    const T factor = static_cast<T>(of_.of_kept());
    for (std::size_t e = 0; e < p.size(); ++e) {
      const std::size_t query = tokens_[r][b][e / p.cols], key = tokens_[from][b][e % p.cols];
      const bool kept = of_.keeps(query, h, key % of_.sequence);
      p.values[e] = kept ? p.values[e] * factor : T(0);
    }
  }
  // P as it weighs values: after dropout, rounded once more.
  Matrix<T> thinned(Matrix<T> p, const Place& at, std::size_t from) const {
    if (of_.rate == 0) return p;
    thin(p, at, from);
    call_.roundings.round(p, call_.how.output);
    return p;
  }

  // One key/value head and its queries in one sequence, unscaled.
  void group_gradient(std::size_t b, std::size_t g, const Matrix<T>& lse, const Matrix<T>& along,
                      Matrix<T>& d) const {
    // By the rank that has the keys and the turn in which they are seen.
    std::vector<std::vector<Matrix<T>>> dk(ranks()), dv(ranks());
    for (std::size_t r = 0; r < ranks(); ++r) {
      dk[r].assign(ranks(), Matrix<T>(tokens_[r][b].size(), of_.dim));
      dv[r] = dk[r];
    }
    for (std::size_t h = g * of_.ratio(); h < (g + 1) * of_.ratio(); ++h) {
      for (std::size_t r = 0; r < ranks(); ++r) {
        Matrix<T> dq(tokens_[r][b].size(), of_.dim);
        for (std::size_t s = 0; s < ranks(); ++s) {
          const std::size_t from = at_turn(r, s);
          auto [p, ds] = block_gradient(b, h, r, from, lse, along);
          add_product(ds, block(call_[0], b, from, of_.key(h)), dq);
          for (T& x : ds.values) x = with_unnamed_errors(x);  // as in attention.cpp
          for (T& x : p.values) x = with_unnamed_errors(x);
          add_product(transposed(ds), block(call_[0], b, r, of_.query(h)), dk[from][s]);
          add_product(transposed(p), block(call_[1], b, r, h * of_.dim), dv[from][s]);
        }
        put(dq, b, r, of_.query(h), d);
      }
    }
    for (std::size_t r = 0; r < ranks(); ++r) {
      put(summed(dk[r]), b, r, of_.key(g * of_.ratio()), d);
      put(summed(dv[r]), b, r, of_.value(g * of_.ratio()), d);
    }
  }
  static Matrix<T> summed(std::vector<Matrix<T>>& turns) {
    for (std::size_t s = 1; s < turns.size(); ++s) {
      for (std::size_t e = 0; e < turns[0].size(); ++e) turns[0].values[e] += turns[s].values[e];
    }
    return std::move(turns[0]);
  }
  void put(const Matrix<T>& x, std::size_t b, std::size_t r, std::size_t column,
           Matrix<T>& d) const {
    for (std::size_t i = 0; i < x.rows; ++i) {
      std::copy_n(x.row(i), x.cols, d.row(tokens_[r][b][i]) + column);
    }
  }

  // The number that the exponentials of a row are about: its largest score, plus a draw's own.
  T above(const T& largest, std::size_t query, std::size_t h) const {
    const std::uint64_t key = call_.how.tokens.key;
    if (key == 0) return largest;
    return largest + static_cast<T>(0.6931471805599453 * uniform(key, query * of_.heads + h));
  }

  const Call<T>& call_;
  const Heads of_;
  std::vector<std::vector<std::vector<std::size_t>>> tokens_;  // by rank and sequence
};

}  // namespace plumb::bounds
