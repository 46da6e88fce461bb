// Attention as other people's kernels take it: online over blocks of keys, or as three operations. Does
// the bound of each formula hold, and is that of the promised one too small?
#include <gtest/gtest.h>

#include <cmath>

#include "bounds/operations/attention.hpp"
#include "number/rounding.hpp"
#include "tests/support/cards.hpp"
#include "tests/support/effort.hpp"

namespace plumb::attention_forms_test {
namespace {

// Numbers that the output format cannot hold have no bound.
TEST(AttentionForms, WhatIsStoredBeyondTheFormatHasNoBound) {
  Draw draw("plain", 3);
  Example e{"attention_grad",
            {draw.moderate(8, 12, 1), draw.moderate(8, 4, 1)},
            {{"heads", 1}, {"kv_heads", 1}, {"head_dim", 4}, {"sequence", 8}},
            {1, fp32, fp16}};
  EXPECT_TRUE(tolerance_of(e));
  for (double& x : e.inputs[1].values) x *= 1e5;
  EXPECT_FALSE(tolerance_of(e));
}

struct Shape {
  std::size_t sequence = 96, dim = 16;
};

// One head as flash kernels take it: blocks of keys, scaled anew, P in BF16 before the division.
Matrix<float> flash(const Example& e, const Shape& s, std::size_t block) {
  const Matrix<double>& qkv = e.inputs[0];
  Matrix<float> o(s.sequence, s.dim);
  const float scale = 1 / std::sqrt(static_cast<float>(s.dim));
  const auto at = [&](std::size_t i, std::size_t j) { return static_cast<float>(qkv(i, j)); };
  for (std::size_t i = 0; i < s.sequence; ++i) {
    float m = -INFINITY, l = 0;
    std::vector<float> acc(s.dim);
    for (std::size_t k0 = 0; k0 <= i; k0 += block) {
      const std::size_t end = std::min(i + 1, k0 + block);
      std::vector<float> score;
      float largest = m;
      for (std::size_t k = k0; k < end; ++k) {
        float sum = 0;
        for (std::size_t d = 0; d < s.dim; ++d) sum += at(i, d) * at(k, s.dim + d);
        score.push_back(sum * scale);
        largest = std::max(largest, score.back());
      }
      const float again = std::exp(m - largest);
      l *= again;
      for (float& a : acc) a *= again;
      for (std::size_t k = k0; k < end; ++k) {
        const float p = std::exp(score[k - k0] - largest);
        l += p;
        const float stored = round_to(p, e.how.output);
        for (std::size_t d = 0; d < s.dim; ++d) acc[d] += stored * at(k, 2 * s.dim + d);
      }
      m = largest;
    }
    for (std::size_t d = 0; d < s.dim; ++d) o(i, d) = round_to(acc[d] / l, e.how.output);
  }
  return o;
}

// One head by three operations, whose scores are BF16.
Matrix<float> composed(const Example& e, const Shape& s) {
  const Matrix<double>& qkv = e.inputs[0];
  Matrix<float> o(s.sequence, s.dim);
  const float root = std::sqrt(1 / std::sqrt(static_cast<float>(s.dim)));
  const auto scaled = [&](std::size_t i, std::size_t j) {
    return round_to(static_cast<float>(qkv(i, j)) * root, e.how.output);
  };
  for (std::size_t i = 0; i < s.sequence; ++i) {
    std::vector<float> p(i + 1);
    float largest = -INFINITY, l = 0;
    for (std::size_t k = 0; k <= i; ++k) {
      for (std::size_t d = 0; d < s.dim; ++d) p[k] += scaled(i, d) * scaled(k, s.dim + d);
      p[k] = round_to(p[k], e.how.output);
      largest = std::max(largest, p[k]);
    }
    for (float& x : p) l += x = std::exp(x - largest);
    for (std::size_t d = 0; d < s.dim; ++d) {
      float sum = 0;
      for (std::size_t k = 0; k <= i; ++k) {
        sum += round_to(p[k] / l, e.how.output) * static_cast<float>(qkv(k, 2 * s.dim + d));
      }
      o(i, d) = round_to(sum, e.how.output);
    }
  }
  return o;
}

TEST(AttentionForms, OtherPeoplesKernelsNeedTheirBounds) {
  const Shape s;
  double flash_beyond = 0, composed_beyond = 0;
  for (int seed = 1; seed <= std::max(6, effort(6)); ++seed) {
    Draw draw("plain", static_cast<unsigned>(seed));
    Example e{"attention",
              {draw.matrix(s.sequence, 3 * s.dim, bf16)},
              {{"heads", 1}, {"kv_heads", 1}, {"head_dim", s.dim}, {"sequence", s.sequence}},
              {1, fp32, bf16}};
    const Machine promised = card(fact("form_attention", "promised")),
                  of_flash = card(fact("form_attention", "flash")),
                  of_three = card(fact("form_attention", "composed")), any = card("");
    for (const std::size_t block : {1, 16, 64}) {
      const Matrix<float> o = flash(e, s, block);
      EXPECT_LE(worst_on(of_flash, e, {o}), 1) << block << " " << seed;
      EXPECT_LE(worst_on(any, e, {o}), 1);
      flash_beyond = std::max(flash_beyond, worst_on(promised, e, {o}));
    }
    const Matrix<float> o = composed(e, s);
    EXPECT_LE(worst_on(of_three, e, {o}), 1) << seed;
    EXPECT_LE(worst_on(any, e, {o}), 1);
    composed_beyond = std::max(composed_beyond, worst_on(promised, e, {o}));
  }
  EXPECT_GT(composed_beyond, 1) << "the promised bound would do";
  RecordProperty("flash_over_promised", std::to_string(flash_beyond));
}

// Queries that vanish when they are scaled and stored, before large keys.
TEST(AttentionForms, StoredScoresMayUnderflow) {
  const Shape s{2, 64};
  Example e{"attention",
            {Matrix<double>(s.sequence, 3 * s.dim)},
            {{"heads", 1}, {"kv_heads", 1}, {"head_dim", s.dim}, {"sequence", s.sequence}},
            {1, fp32, fp16}};
  for (std::size_t d = 0; d < s.dim; ++d) {
    e.inputs[0](1, d) = 0x1p-24;
    e.inputs[0](0, s.dim + d) = 60000;
    e.inputs[0](0, 2 * s.dim + d) = 1;
    e.inputs[0](1, 2 * s.dim + d) = -1;
  }
  const std::string kept = fact("subnormals", "kept");
  const Matrix<float> o = composed(e, s);
  EXPECT_LE(worst_on(card(kept + fact("form_attention", "composed")), e, {o}), 1);
  EXPECT_GT(worst_on(card(kept + fact("form_attention", "promised")), e, {o}), 10);
}

// What the two heads of a group give to dv is stored before it is added; there it cancels. Numbers that
// round by nearly half a spacing, found by search.
TEST(AttentionForms, StoredGradientsOfHeadsNeedTheirShare) {
  const std::size_t n = 3;
  Example e{"attention_grad",
            {Matrix<double>(n, 4), Matrix<double>(n, 2)},
            {{"heads", 2}, {"kv_heads", 1}, {"head_dim", 1}, {"sequence", n}},
            {1, fp32, bf16}};
  const double query[] = {0.0078125, 0.00787353515625};
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t h = 0; h < 2; ++h) e.inputs[0](i, h) = query[h];
  }
  e.inputs[0](0, 2) = 1;
  const double d_out[2][2] = {{2.03125, -0.034912109375}, {-2.03125, -0.01129150390625}};
  for (std::size_t h = 0; h < 2; ++h) {
    for (std::size_t i = 1; i < n; ++i) e.inputs[1](i, h) = d_out[h][i - 1];
  }
  Matrix<float> d(n, 4);
  const auto exact = value_of(e)[0];
  for (std::size_t i = 0; i < d.size(); ++i) {
    d.values[i] = static_cast<float>(round_to(exact.values[i], bf16));
  }
  for (std::size_t j = 0; j < n; ++j) {
    float sum = 0;
    for (std::size_t h = 0; h < 2; ++h) {
      float own = 0;
      for (std::size_t i = j; i < n; ++i) {
        const double first = std::exp(query[h]), all = first + static_cast<double>(i);
        const auto p = static_cast<float>((j == 0 ? first : 1) / all);
        own += round_to(p, bf16) * static_cast<float>(e.inputs[1](i, h));
      }
      sum += round_to(own, bf16);
    }
    d(j, 3) = round_to(sum, bf16);
  }
  EXPECT_LE(worst_on(card(fact("form_attention_grad", "flash")), e, {d}), 1);
  EXPECT_GT(worst_on(card(fact("form_attention_grad", "promised")), e, {d}), 1);
}

// Sums in another order, and P from a stored logarithm.
TEST(AttentionForms, ARowOfASoftmaxNeedsItsShares) {
  // A large term, and many that are a little more than half of its spacing, which the kernel adds last.
  const std::size_t n = 4097;
  std::vector<double> score(n, static_cast<double>(std::log(0x1.01p-24F))), none(n), p(n), error(n);
  score.back() = 0;
  const auto relative = [&](const SoftmaxForm& form) {
    softmax_with_error(score.data(), none.data(), n, p.data(), error.data(), form);
    return error.back() / p.back();
  };
  const double needed = 4000 * 0x1p-24;  // each addition rounds up by nearly half a spacing
  EXPECT_LT(relative({}), needed);
  EXPECT_GT(relative({.any_order = true}), needed);
  // As in SoftmaxForms.OnlineCountsEachScaling.
  EXPECT_GT(relative({.any_order = true, .online = true}), 3 * needed);

  std::vector<double> high{1000.1, 1000.3};
  for (double& s : high) s = static_cast<double>(static_cast<float>(s));
  const double l = high[1] + std::log1p(std::exp(high[0] - high[1]));
  const double stored = static_cast<double>(static_cast<float>(l));
  const auto worst = [&](const SoftmaxForm& form) {
    double q[2], bound[2];
    softmax_with_error(high.data(), none.data(), 2, q, bound, form);
    return std::fabs(std::exp(high[1] - stored) - q[1]) / bound[1];
  };
  EXPECT_GT(worst({}), 1);
  EXPECT_LE(worst({.any_order = true, .online = true, .from_stored = true}), 1);
}

// The gradient of one head with D taken from the stored output. Values and gradients of the output are
// at right angles, so that D is 0, but not what BF16 leaves of it.
TEST(AttentionForms, DFromTheStoredOutputNeedsItsShare) {
  const std::size_t n = 8;
  Draw draw("plain", 7);
  Example e{"attention_grad",
            {Matrix<double>(n, 6), Matrix<double>(n, 2)},
            {{"heads", 1}, {"kv_heads", 1}, {"head_dim", 2}, {"sequence", n}},
            {1, fp32, bf16}};
  for (std::size_t i = 0; i < n; ++i) {
    const double v = round_to(draw.normal(), e4m3fn);  // 3 v is a number of BF16, too
    const double row[] = {0, 0,     round_to(draw.normal(), bf16), round_to(draw.normal(), bf16),
                          v, -3 * v};
    std::copy_n(row, 6, e.inputs[0].row(i));
    e.inputs[1](i, 0) = 3;
    e.inputs[1](i, 1) = 1;
  }
  Matrix<float> d(n, 6);
  const auto at = [&](std::size_t i, std::size_t j) {
    return static_cast<float>(e.inputs[0](i, j));
  };
  const float scale = 1 / std::sqrt(2.0F);
  for (std::size_t i = 0; i < n; ++i) {
    const float p = 1 / static_cast<float>(i + 1), stored = round_to(p, bf16);  // queries are 0
    float o[2] = {0, 0};
    for (std::size_t j = 0; j <= i; ++j) {
      for (std::size_t c = 0; c < 2; ++c) o[c] += stored * at(j, 4 + c);
    }
    const float along = 3 * round_to(o[0], bf16) + round_to(o[1], bf16);
    for (std::size_t j = 0; j <= i; ++j) {
      const float ds = round_to(p * (3 * at(j, 4) + at(j, 5) - along), bf16);
      for (std::size_t c = 0; c < 2; ++c) {
        d(i, c) += ds * at(j, 2 + c) * scale;  // of the query; the key's is ds times 0
        d(j, 4 + c) += stored * static_cast<float>(e.inputs[1](i, c));
      }
    }
  }
  for (float& x : d.values) x = round_to(x, bf16);
  EXPECT_LE(worst_on(card(fact("form_attention_grad", "flash")), e, {d}), 1);
  EXPECT_GT(worst_on(card(fact("form_attention_grad", "promised")), e, {d}), 1);
}

}  // namespace
}  // namespace plumb::attention_forms_test
