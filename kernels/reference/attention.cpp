#include <cmath>

#include "kernels/ops.hpp"

namespace plumb {
namespace {

struct Columns {
  std::size_t query, key, value;
};

Columns columns_of(const HeadShape& s, std::size_t head) {
  const std::size_t ratio = s.heads / s.kv_heads;
  const std::size_t start = head / ratio * (ratio + 2) * s.dim;
  return {start + head % ratio * s.dim, start + ratio * s.dim, start + (ratio + 1) * s.dim};
}

View<float> block(const Tensor& x, const HeadShape& s, std::size_t sequence, std::size_t column,
                  bool transposed = false) {
  const float* data = x.row(sequence * s.sequence) + column;
  return transposed ? View<float>{data, s.dim, s.sequence, x.cols, true}
                    : View<float>{data, s.sequence, s.dim, x.cols, false};
}

float inverse_root(const HeadShape& s) { return 1.0F / std::sqrt(static_cast<float>(s.dim)); }

}  // namespace

void rotate_heads(Tensor& qkv, const HeadShape& s, double base, int direction) {
  const std::size_t half = s.dim / 2;
  std::vector<float> cosine(s.sequence * half), sine(s.sequence * half);
  for (std::size_t p = 0; p < s.sequence; ++p) {
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) *
                           std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
      cosine[p * half + i] = static_cast<float>(std::cos(angle));
      sine[p * half + i] = static_cast<float>(direction * std::sin(angle));
    }
  }
  const std::size_t group = s.heads / s.kv_heads + 2;
  for (std::size_t t = 0; t < qkv.rows; ++t) {
    const float* c = cosine.data() + t % s.sequence * half;
    const float* z = sine.data() + t % s.sequence * half;
    for (std::size_t h = 0; h < qkv.cols / s.dim; ++h) {
      if ((h + 1) % group == 0) continue;  // values are not rotated
      float* head = qkv.row(t) + h * s.dim;
      for (std::size_t i = 0; i < half; ++i) {
        const float x = head[i];
        const float y = head[i + half];
        head[i] = x * c[i] - y * z[i];
        head[i + half] = y * c[i] + x * z[i];
      }
    }
  }
}

Tensor attention_scores(const Backend& backend, const Tensor& qkv, const HeadShape& s,
                        std::size_t sequence, std::size_t head) {
  const Columns at = columns_of(s, head);
  Tensor scores(s.sequence, s.sequence);
  backend.gemm(block(qkv, s, sequence, at.query), block(qkv, s, sequence, at.key, true),
               scores.values.data(), scores.cols, false);
  for (float& x : scores.values) x *= inverse_root(s);
  return scores;
}

void causal_softmax(Tensor& scores) {
  for (std::size_t i = 0; i < scores.rows; ++i) {
    float* row = scores.row(i);
    float largest = row[0];
    for (std::size_t j = 1; j <= i; ++j) largest = std::max(largest, row[j]);
    float sum = 0;
    for (std::size_t j = 0; j <= i; ++j) {
      row[j] = std::exp(row[j] - largest);
      sum += row[j];
    }
    for (std::size_t j = 0; j < scores.cols; ++j) row[j] = j <= i ? row[j] / sum : 0.0F;
  }
}

void attend(const Backend& backend, const Tensor& p, const Tensor& qkv, const HeadShape& s,
            std::size_t sequence, std::size_t head, Tensor& o) {
  backend.gemm(view(p), block(qkv, s, sequence, columns_of(s, head).value),
               o.row(sequence * s.sequence) + head * s.dim, o.cols, false);
}

Tensor score_gradient(const Backend& backend, const Tensor& p, const Tensor& qkv, const Tensor& d_o,
                      const HeadShape& s, std::size_t sequence, std::size_t head) {
  Tensor ds(s.sequence, s.sequence);
  backend.gemm(block(d_o, s, sequence, head * s.dim),
               block(qkv, s, sequence, columns_of(s, head).value, true), ds.values.data(), ds.cols,
               false);
  for (std::size_t i = 0; i < ds.rows; ++i) {
    float along = 0;
    for (std::size_t j = 0; j <= i; ++j) along = std::fma(p(i, j), ds(i, j), along);
    for (std::size_t j = 0; j < ds.cols; ++j) {
      ds(i, j) = j <= i ? p(i, j) * (ds(i, j) - along) : 0.0F;
    }
  }
  return ds;
}

void attention_gradient(const Backend& backend, const Tensor& p, const Tensor& ds,
                        const Tensor& qkv, const Tensor& d_o, const HeadShape& s,
                        std::size_t sequence, std::size_t head, Tensor& d_qkv) {
  const Columns at = columns_of(s, head);
  const bool later = head % (s.heads / s.kv_heads) != 0;
  float* rows = d_qkv.row(sequence * s.sequence);
  backend.gemm(view(ds), block(qkv, s, sequence, at.key), rows + at.query, d_qkv.cols, false);
  backend.gemm(view(ds, true), block(qkv, s, sequence, at.query), rows + at.key, d_qkv.cols, later);
  backend.gemm(view(p, true), block(d_o, s, sequence, head * s.dim), rows + at.value, d_qkv.cols,
               later);
}

void scale_queries_and_keys(Tensor& d_qkv, const HeadShape& s) {
  const std::size_t group = s.heads / s.kv_heads + 2;
  for (std::size_t t = 0; t < d_qkv.rows; ++t) {
    for (std::size_t j = 0; j < d_qkv.cols; ++j) {
      if ((j / s.dim + 1) % group != 0) d_qkv(t, j) *= inverse_root(s);
    }
  }
}

}  // namespace plumb
