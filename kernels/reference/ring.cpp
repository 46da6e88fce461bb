#include "kernels/ring.hpp"

#include <cmath>
#include <limits>

#include "number/exponential.hpp"

namespace plumb::kernels {
namespace {

// The key's column in a tensor of keys and values; the value is beside it.
std::size_t key_column(const HeadShape& s, std::size_t group) {
  return columns_of(s, group * (s.heads / s.kv_heads)).key;
}

// Rescales what was summed so far if a larger score has come.
void bring_down(float score, std::size_t i, SoFar& all) {
  if (!(all.largest[i] < score)) return;
  const float down = exp(all.largest[i] - score);
  all.largest[i] = score;
  all.sum[i] *= down;
  for (std::size_t c = 0; c < all.o.cols; ++c) all.o(i, c) *= down;
}

}  // namespace

Tensor keys_and_values(const Tensor& qkv, const HeadShape& s) {
  Tensor y(qkv.rows, 2 * s.kv_heads * s.dim);
  for (std::size_t t = 0; t < y.rows; ++t) {
    for (std::size_t g = 0; g < s.kv_heads; ++g) {
      std::copy_n(qkv.row(t) + key_column(s, g), 2 * s.dim, y.row(t) + 2 * g * s.dim);
    }
  }
  return y;
}

Tensor unpacked(const Tensor& x, const HeadShape& s) {
  Tensor y(x.rows, (s.heads + 2 * s.kv_heads) * s.dim);
  for (std::size_t t = 0; t < y.rows; ++t) {
    for (std::size_t g = 0; g < s.kv_heads; ++g) {
      std::copy_n(x.row(t) + 2 * g * s.dim, 2 * s.dim, y.row(t) + key_column(s, g));
    }
  }
  return y;
}

SoFar::SoFar(std::size_t queries, std::size_t dim)
    : o(queries, dim), largest(queries, -std::numeric_limits<float>::infinity()), sum(queries, 0) {}

void take_in(Tensor& scores, const Sight& sees, SoFar& all) {
  for (std::size_t i = 0; i < scores.rows; ++i) {
    float* row = scores.row(i);
    float largest = -std::numeric_limits<float>::infinity();
    for (std::size_t j = 0; j < scores.cols; ++j) {
      if (sees(i, j)) largest = std::max(largest, row[j]);
    }
    bring_down(largest, i, all);
    for (std::size_t j = 0; j < scores.cols; ++j) {
      const bool seen = sees(i, j);
      row[j] = seen ? exp(row[j] - all.largest[i]) : 0.0F;
      if (seen) all.sum[i] += row[j];
    }
  }
}

void take_in_sink(float sink, SoFar& all) {
  for (std::size_t i = 0; i < all.sum.size(); ++i) {
    bring_down(sink, i, all);
    all.sum[i] += exp(sink - all.largest[i]);
  }
}

Tensor divided(const SoFar& all, const HeadShape& s, std::size_t sequence, std::size_t head,
               Tensor& o) {
  Tensor lse(all.o.rows, 1);
  for (std::size_t i = 0; i < all.o.rows; ++i) {
    float* to = o.row(sequence * s.queries() + i) + head * s.dim;
    for (std::size_t c = 0; c < s.dim; ++c) to[c] = all.o(i, c) / all.sum[i];
    lse.values[i] = all.largest[i] + std::log(all.sum[i]);
  }
  return lse;
}

void probabilities(Tensor& scores, const Sight& sees, const Tensor& lse) {
  for (std::size_t i = 0; i < scores.rows; ++i) {
    for (std::size_t j = 0; j < scores.cols; ++j) {
      scores(i, j) = sees(i, j) ? exp(scores(i, j) - lse.values[i]) : 0.0F;
    }
  }
}

Tensor row_products(const Tensor& o, const Tensor& d_o, const HeadShape& s, std::size_t sequence,
                    std::size_t head) {
  Tensor along(s.queries(), 1);
  for (std::size_t i = 0; i < along.rows; ++i) {
    const std::size_t row = sequence * s.queries() + i;
    const float *a = d_o.row(row) + head * s.dim, *b = o.row(row) + head * s.dim;
    for (std::size_t c = 0; c < s.dim; ++c) {
      along.values[i] = std::fma(a[c], b[c], along.values[i]);
    }
  }
  return along;
}

// Where P is zero, so is dS.
Tensor block_gradient(const Tensor& p, Tensor dp, const Tensor& along) {
  Tensor ds = std::move(dp);
  for (std::size_t i = 0; i < ds.rows; ++i) {
    for (std::size_t j = 0; j < ds.cols; ++j) ds(i, j) = p(i, j) * (ds(i, j) - along.values[i]);
  }
  return ds;
}

Tensor taken_by_sink(float sink, const Tensor& lse) {
  Tensor p(lse.rows, 1);
  for (std::size_t i = 0; i < p.rows; ++i) p.values[i] = exp(sink - lse.values[i]);
  return p;
}

}  // namespace plumb::kernels
