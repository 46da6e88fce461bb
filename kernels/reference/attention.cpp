#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/ops.hpp"
#include "number/exponential.hpp"

namespace plumb::kernels {
namespace {

// The columns of a head in one sequence, of which x has `tokens`.
View<float> block(const Tensor& x, std::size_t tokens, std::size_t dim, std::size_t sequence,
                  std::size_t column, bool transposed = false) {
  const float* data = x.row(sequence * tokens) + column;
  return transposed ? View<float>{data, dim, tokens, x.cols, true}
                    : View<float>{data, tokens, dim, x.cols, false};
}
// The same for this rank's tokens, and for all tokens.
View<float> own(const Tensor& x, const HeadShape& s, std::size_t sequence, std::size_t column) {
  return block(x, s.queries(), s.dim, sequence, column);
}
View<float> all(const Tensor& x, const HeadShape& s, std::size_t sequence, std::size_t column,
                bool transposed = false) {
  return block(x, s.sequence, s.dim, sequence, column, transposed);
}

float inverse_root(const HeadShape& s) { return 1.0F / std::sqrt(static_cast<float>(s.dim)); }

}  // namespace

void rotate_heads(Tensor& qkv, const HeadShape& s, std::span<const double> frequencies,
                  int direction, double size) {
  const std::size_t half = frequencies.size(), rotated = 2 * half;
  std::vector<float> cosine(s.sequence * half), sine(s.sequence * half);
  for (std::size_t p = 0; p < s.sequence; ++p) {
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * frequencies[i];
      cosine[p * half + i] = static_cast<float>(size * std::cos(angle));
      sine[p * half + i] = static_cast<float>(size * (direction * std::sin(angle)));
    }
  }
  const std::size_t group = s.heads / s.kv_heads + 2;
  for (std::size_t t = 0; t < qkv.rows; ++t) {
    const std::size_t position = s.within.empty() ? s.positions[t % s.queries()] : s.within[t];
    const float* c = cosine.data() + position * half;
    const float* z = sine.data() + position * half;
    for (std::size_t h = 0; h < qkv.cols / s.dim; ++h) {
      if ((h + 1) % group == 0) continue;  // values are not rotated
      float* head = qkv.row(t) + h * s.dim + s.dim - rotated;
      for (std::size_t i = 0; i < half; ++i) {
        const float x = head[i];
        const float y = head[i + half];
        head[i] = x * c[i] - y * z[i];
        head[i + half] = y * c[i] + x * z[i];
      }
    }
  }
}

HeadColumns columns_of(const HeadShape& s, std::size_t head) {
  const std::size_t ratio = s.heads / s.kv_heads;
  const std::size_t start = head / ratio * (ratio + 2) * s.dim;
  return {start + head % ratio * s.dim, start + ratio * s.dim, start + (ratio + 1) * s.dim};
}

static std::size_t heads_of(const HeadShape& s, bool keys) { return keys ? s.kv_heads : s.heads; }

static std::size_t column_of(const HeadShape& s, bool keys, std::size_t head) {
  return keys ? columns_of(s, head * (s.heads / s.kv_heads)).key : columns_of(s, head).query;
}

Tensor stacked_heads(const Tensor& qkv, const HeadShape& s, bool keys) {
  Tensor rows(heads_of(s, keys) * qkv.rows, s.dim, to_be_written);
  for (std::size_t h = 0, r = 0; h < heads_of(s, keys); ++h) {
    const std::size_t column = column_of(s, keys, h);
    for (std::size_t t = 0; t < qkv.rows; ++t) {
      std::copy_n(qkv.row(t) + column, s.dim, rows.row(r++));
    }
  }
  return rows;
}

void put_heads(const Tensor& rows, const HeadShape& s, bool keys, Tensor& qkv) {
  for (std::size_t h = 0, r = 0; h < heads_of(s, keys); ++h) {
    const std::size_t column = column_of(s, keys, h);
    for (std::size_t t = 0; t < qkv.rows; ++t) {
      std::copy_n(rows.row(r++), s.dim, qkv.row(t) + column);
    }
  }
}

Tensor attention_scores(const Backend& backend, const Tensor& q, const Tensor& kv,
                        const HeadShape& s, std::size_t sequence, std::size_t head) {
  const HeadColumns at = columns_of(s, head);
  Tensor scores(s.queries(), s.sequence, to_be_written);
  backend.gemm(own(q, s, sequence, at.query), all(kv, s, sequence, at.key, true),
               scores.values.data(), scores.cols, false);
  const float scale = inverse_root(s);
  for (float& x : scores.values) x *= scale;
  return scores;
}

// Several chains at once do not wait for one another; a maximum is the same in any order.
static float largest_of(std::span<const float> row) {
  std::array<float, 16> most;
  most.fill(row[0]);
  std::size_t j = 0;
  for (; j + most.size() <= row.size(); j += most.size()) {
    for (std::size_t l = 0; l < most.size(); ++l) most[l] = std::max(most[l], row[j + l]);
  }
  for (; j < row.size(); ++j) most[0] = std::max(most[0], row[j]);
  return std::ranges::max(most);
}

Tensor causal_softmax(Tensor& scores, const HeadShape& s, std::size_t sequence, std::size_t head) {
  const bool sink = !s.sinks.empty();
  Tensor taken(sink ? scores.rows : 0, 1);
  for (std::size_t i = 0; i < scores.rows; ++i) {
    float* row = scores.row(i);
    const std::size_t first = s.first_key(sequence, i), last = s.positions[i];
    float largest = largest_of({row + first, last + 1 - first});
    if (sink) largest = std::max(largest, s.sinks[head]);
    float sum = 0;
    for (std::size_t j = first; j <= last; ++j) row[j] = exp(row[j] - largest);
    for (std::size_t j = first; j <= last; ++j) sum += row[j];
    if (sink) {
      taken.values[i] = exp(s.sinks[head] - largest);
      sum += taken.values[i];
      taken.values[i] /= sum;
    }
    std::fill(row, row + first, 0.0F);
    for (std::size_t j = first; j <= last; ++j) row[j] /= sum;
    std::fill(row + last + 1, row + scores.cols, 0.0F);
  }
  return taken;
}

void attend(const Backend& backend, const Tensor& p, const Tensor& kv, const HeadShape& s,
            std::size_t sequence, std::size_t head, Tensor& o) {
  backend.gemm(view(p), all(kv, s, sequence, columns_of(s, head).value),
               o.row(sequence * s.queries()) + head * s.dim, o.cols, false);
}

void add_values(const Backend& backend, const Tensor& p, const Tensor& kv, const HeadShape& s,
                std::size_t sequence, std::size_t head, Tensor& o) {
  backend.gemm(view(p), all(kv, s, sequence, columns_of(s, head).value), o.values.data(), o.cols,
               true);
}

Tensor probability_gradient(const Backend& backend, const Tensor& kv, const Tensor& d_o,
                            const HeadShape& s, std::size_t sequence, std::size_t head) {
  Tensor dp(s.queries(), s.sequence, to_be_written);
  backend.gemm(own(d_o, s, sequence, head * s.dim),
               all(kv, s, sequence, columns_of(s, head).value, true), dp.values.data(), dp.cols,
               false);
  return dp;
}

ScoreGradient score_gradient(const Tensor& p, Tensor dp, const HeadShape& s, std::size_t sequence) {
  Tensor ds = std::move(dp), alongs(p.rows, 1);
  for (std::size_t i = 0; i < ds.rows; ++i) {
    const std::size_t first = s.first_key(sequence, i), last = s.positions[i];
    const float* of = p.row(i);
    float* row = ds.row(i);
    float along = 0;
    for (std::size_t j = first; j <= last; ++j) along = std::fma(of[j], row[j], along);
    std::fill(row, row + first, 0.0F);
    for (std::size_t j = first; j <= last; ++j) row[j] = of[j] * (row[j] - along);
    std::fill(row + last + 1, row + ds.cols, 0.0F);
    alongs.values[i] = along;
  }
  return {std::move(ds), std::move(alongs)};
}

void sink_gradient(const Tensor& taken, const Tensor& along, const HeadShape& s,
                   std::size_t sequence, std::size_t head, Tensor& d_sinks) {
  for (std::size_t i = 0; i < taken.rows; ++i) {
    d_sinks(sequence * s.queries() + i, head) = -(taken.values[i] * along.values[i]);
  }
}

void query_gradient(const Backend& backend, const Tensor& ds, const Tensor& kv, const HeadShape& s,
                    std::size_t sequence, std::size_t head, Tensor& d_q, bool more) {
  const HeadColumns at = columns_of(s, head);
  backend.gemm(view(ds), all(kv, s, sequence, at.key), d_q.row(sequence * s.queries()) + at.query,
               d_q.cols, more);
}

void key_value_gradient(const Backend& backend, const Tensor& p, const Tensor& ds, const Tensor& q,
                        const Tensor& d_o, const HeadShape& s, std::size_t sequence,
                        std::size_t head, Tensor& d_kv) {
  const HeadColumns at = columns_of(s, head);
  const bool later = head % (s.heads / s.kv_heads) != 0;
  float* rows = d_kv.row(sequence * s.sequence);
  backend.gemm(view(ds, true), own(q, s, sequence, at.query), rows + at.key, d_kv.cols, later);
  backend.gemm(view(p, true), own(d_o, s, sequence, head * s.dim), rows + at.value, d_kv.cols,
               later);
}

void scale_queries_and_keys(Tensor& d_qkv, const HeadShape& s) {
  const std::size_t group = s.heads / s.kv_heads + 2;
  const float scale = inverse_root(s);
  for (std::size_t t = 0; t < d_qkv.rows; ++t) {
    for (std::size_t h = 0; h < d_qkv.cols / s.dim; ++h) {
      if ((h + 1) % group == 0) continue;  // values are not scaled
      float* head = d_qkv.row(t) + h * s.dim;
      for (std::size_t i = 0; i < s.dim; ++i) head[i] *= scale;
    }
  }
}

}  // namespace plumb::kernels
