// Formulas of other people's kernels: does the bound of each hold for it, does that of any hold for
// all, and is the bound of the promised one too small for some?
#include "bounds/forms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "number/rounding.hpp"
#include "tests/support/cards.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::forms_test {
namespace {

class Forms : public testing::TestWithParam<const Operation*> {};

TEST_P(Forms, EachStaysWithinItsBoundAndWithinThatOfAny) {
  const Operation& operation = *GetParam();
  const Machine any = card(fact("order", "any"));
  for (const char* kind : input_kinds) {
    for (int seed = 1; seed <= std::max(12, effort(12)); ++seed) {
      Draw draw(kind, 70'000 + static_cast<unsigned>(seed));
      Example e = example_of(operation, draw);
      if (e.how.tokens.ring || e.attributes.contains("one_pass") ||
          e.attributes.contains("welford")) {
        continue;  // the promise says which
      }
      for (std::size_t f = 0; f < operation.forms.size(); ++f) {
        e.form = f;
        const auto computed = evaluation_of(e);
        Comparison own;
        judge(e, computed, own);
        EXPECT_EQ(own.violations, 0U) << (operation.forms.begin() + f)->name << " " << kind << " "
                                      << seed << " " << own.largest_ratio;
        EXPECT_LE(worst_on(any, e, computed), 1)
            << (operation.forms.begin() + f)->name << " " << seed;
      }
    }
  }
}

TEST_P(Forms, ACardNamesOneOrNone) {
  const Operation& operation = *GetParam();
  const std::string name = "form_" + std::string(operation.id);
  for (std::size_t f = 0; f < operation.forms.size(); ++f) {
    const std::string form((operation.forms.begin() + f)->name);
    EXPECT_EQ(forms_on(card(fact(name, form)), operation, Mode::deterministic), std::vector{f});
    EXPECT_EQ(assumed_forms(card(fact(name, form)), operation, Mode::moments),
              "the formula " + form);
  }
  EXPECT_THROW(forms_on(card(fact(name, "abacus")), operation, Mode::deterministic), Failure);
  EXPECT_EQ(forms_on(card(""), operation, Mode::moments), std::vector<std::size_t>{0});
  const std::string written = fact("forms", "as_written");
  EXPECT_EQ(forms_on(card(written), operation, Mode::deterministic), std::vector<std::size_t>{0});
  EXPECT_GE(forms_on(card(written + fact(name, "any")), operation, Mode::deterministic).size(), 1U);
  EXPECT_THROW(forms_on(card(fact("forms", "some")), operation, Mode::deterministic), Failure);
}

std::vector<const Operation*> with_forms() {
  std::vector<const Operation*> all;
  for (const Operation* operation : all_operations()) {
    if (operation->forms.size() > 0) all.push_back(operation);
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Bounds, Forms, testing::ValuesIn(with_forms()),
                         [](const auto& p) { return std::string(p.param->id); });

Example layernorm_of(std::size_t rows, std::size_t cols, double mean, unsigned seed) {
  Draw draw("plain", seed);
  Example e{"layernorm",
            {draw.moderate(rows, cols, 1, mean), draw.moderate(cols, 1, 0.3, 1),
             draw.moderate(cols, 1, 1)},
            {{"eps", 1e-5}},
            {1, fp32, fp32}};
  for (double& x : e.inputs[0].values) x = round_to(x, bf16);
  return e;
}

// Means and squares of `lanes` interleaved parts, brought up to date element by element, joined one
// after the other; x a + c at the end: as libraries do it.
Matrix<float> welford_in_lanes(const Example& e, std::size_t lanes, bool folds) {
  const Matrix<double>& x = e.inputs[0];
  Matrix<float> y(x.rows, x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    std::vector<float> mean(lanes), squares(lanes), n(lanes);
    for (std::size_t j = 0; j < x.cols; ++j) {
      const std::size_t l = j % lanes;
      n[l] += 1;
      const auto v = static_cast<float>(x(t, j));
      const float off = v - mean[l];
      mean[l] += off / n[l];
      squares[l] += off * (v - mean[l]);
    }
    float m = 0, s = 0, count = 0;
    for (std::size_t l = 0; l < lanes; ++l) {
      if (n[l] == 0) continue;
      const float off = mean[l] - m, all = count + n[l];
      m += off * (n[l] / all);
      s += squares[l] + off * off * (count * n[l] / all);
      count = all;
    }
    const float r = 1 / std::sqrt(s / count + 1e-5F);
    for (std::size_t j = 0; j < x.cols; ++j) {
      const auto v = static_cast<float>(x(t, j)), w = static_cast<float>(e.inputs[1].values[j]),
                 b = static_cast<float>(e.inputs[2].values[j]);
      y(t, j) = folds ? (v * r + (-m * r)) * w + b : (v - m) * r * w + b;
    }
  }
  return y;
}

TEST(LayerNormForms, WelfordInLanesIsWithinTheBoundOfAnyOrder) {
  const Machine updating = card(fact("form_layernorm", "welford"));
  const Machine folding = card(fact("form_layernorm", "welford_folded"));
  double beyond_two_passes = 0;
  for (const double mean : {0.0, 1.0, 30.0, 1000.0}) {
    for (const std::size_t cols : {1, 7, 64, 1000, 4096}) {
      const Example e = layernorm_of(4, cols, mean, 3);
      for (const std::size_t lanes : {1, 4, 16, 64}) {
        const Matrix<float> plain = welford_in_lanes(e, lanes, false);
        EXPECT_LE(worst_on(updating, e, {plain}), 1) << mean << " " << cols << " " << lanes;
        EXPECT_LE(worst_on(folding, e, {welford_in_lanes(e, lanes, true)}), 1)
            << mean << " " << cols;
        Comparison promised;
        judge(e, {plain}, promised);
        beyond_two_passes = std::max(beyond_two_passes, promised.largest_ratio);
      }
    }
  }
  EXPECT_GT(beyond_two_passes, 1) << "two passes would do";
}

// Each share of the bound of any order is needed by some row.
TEST(LayerNormForms, WelfordInAnyOrderIsNotFarFromWhatOneOrderNeeds) {
  const Example e = layernorm_of(8, 256, 300, 5);
  const double worst =
      worst_on(card(fact("form_layernorm", "welford")), e, {welford_in_lanes(e, 1, false)});
  EXPECT_GT(worst, 1e-3);
}

TEST(GeluForms, ByTanhIsBeyondTheBoundOfTheSigmoid) {
  Draw draw("plain", 1);
  Example e{"gelu", {draw.moderate(64, 64, 3)}, {}, {1, fp32, fp32}};
  e.form = 1;
  const auto computed = evaluation_of(e);
  EXPECT_GT(worst_on(card(fact("form_gelu", "sigmoid")), e, computed), 2);
  const double own = worst_on(card(fact("form_gelu", "tanh")), e, computed);
  EXPECT_LE(own, 1);
  EXPECT_GT(own, 0.01);
}

// A softmax that scales its sum anew at each larger element: of rising rows at each.
TEST(SoftmaxForms, OnlineOverRisingRowsNeedsItsOwnBound) {
  Matrix<double> x(1, 4096);
  for (std::size_t j = 0; j < x.cols; ++j) {
    x.values[j] = static_cast<double>(static_cast<float>(0.001 * static_cast<double>(j)));
  }
  Example e{"softmax", {x}, {}, {1, fp32, fp32}};
  e.form = 1;
  const auto computed = evaluation_of(e);
  EXPECT_LE(worst_on(card(fact("form_softmax", "online")), e, computed), 1);
  EXPECT_LE(worst_on(card(""), e, computed), 1);
}

// Each exponential is seven spacings too small, as a card allows: what the sum is scaled with drags it
// down at each step of a rising row.
TEST(SoftmaxForms, OnlineCountsEachScaling) {
  const auto low = [](float x) { return std::exp(x) - 7 * 0x1p-24F; };
  Matrix<double> x(1, 4096);
  for (std::size_t j = 0; j < x.cols; ++j) {
    x.values[j] = static_cast<double>(static_cast<float>(j) * 0x1p-18F);
  }
  const Example e{"softmax", {x}, {}, {1, fp32, fp32}};
  float z = 1;
  for (std::size_t j = 1; j < x.cols; ++j) z = z * low(-0x1p-18F) + 1;
  Matrix<float> p(1, x.cols);
  for (std::size_t j = 0; j < x.cols; ++j) {
    p.values[j] = std::exp(static_cast<float>(x.values[j] - x.values.back())) / z;
  }
  const std::string functions = fact("exp_ulp", "8") + fact("divide_ulp", "0.5");
  EXPECT_LE(worst_on(card(functions + fact("form_softmax", "online")), e, {p}), 1);
  EXPECT_GT(worst_on(card(functions + fact("form_softmax", "two_pass")), e, {p}), 1);
}

// Masks are finite numbers as often as infinities.
TEST(SoftmaxForms, AMaskedLogitTakesNoBoundFromTheOthers) {
  const Machine online = card(fact("exp_ulp", "1") + fact("form_softmax", "online"));
  constexpr float log2e = 1.44269504F;
  constexpr std::size_t keys = 64;
  Draw draw("plain", 23);
  for (const double mask : {-1e4, -65504.0, -1e6, -1e9, -0x1.fffffep127}) {
    Example e{"softmax", {Matrix<double>(1, keys)}, {}, {1, fp32, fp32}};
    for (double& x : e.inputs[0].values)
      x = static_cast<double>(static_cast<float>(2 * draw.uniform() - 1));
    e.inputs[0].values.back() = mask;
    const double most = *std::ranges::max_element(e.inputs[0].values);
    const float m = static_cast<float>(most) * log2e;
    Matrix<float> p(1, keys), without(1, keys);
    float z = 0;
    for (std::size_t j = 0; j < keys; ++j) {
      p.values[j] = std::exp2(std::fma(static_cast<float>(e.inputs[0].values[j]), log2e, -m));
      z += p.values[j];
    }
    const float less = z - p.values[3];
    for (std::size_t j = 0; j < keys; ++j) {
      without.values[j] = p.values[j] / less;
      p.values[j] /= z;
    }
    EXPECT_LE(worst_on(online, e, {p}), 1) << mask;
    EXPECT_GT(worst_on(online, e, {without}), 30) << mask;
  }
}

// Exponentials as powers of two, 2^(x log2 e - m log2 e): what the product with m loses is another where
// the sum is scaled anew.
TEST(SoftmaxForms, ExponentsOfPowersOfTwoLoseInProportionToTheLogits) {
  const std::string functions = fact("exp_ulp", "1") + fact("divide_ulp", "0.5");
  const Machine online = card(functions + fact("form_softmax", "online")),
                two_pass = card(functions + fact("form_softmax", "two_pass"));
  constexpr float log2e = 1.44269504F;
  Draw draw("plain", 17);
  double beyond = 0;
  for (int i = 0; i < effort(500); ++i) {
    const double base = 900 + 100 * draw.uniform();
    Example e{"softmax", {Matrix<double>(1, 2)}, {}, {1, fp32, fp32}};
    e.inputs[0].values = {static_cast<double>(static_cast<float>(base)),
                          static_cast<double>(static_cast<float>(base + 0.5 * draw.uniform()))};
    const auto x = [&](std::size_t j) { return static_cast<float>(e.inputs[0].values[j]); };
    float z = 1;
    z *= std::exp2((x(0) - x(1)) * log2e);
    const float m = x(1) * log2e;
    const auto power = [&](float v) { return std::exp2(std::fma(v, log2e, -m)); };
    z += power(x(1));
    Matrix<float> p(1, 2);
    for (std::size_t j = 0; j < 2; ++j) p.values[j] = power(x(j)) / z;
    EXPECT_LE(worst_on(online, e, {p}), 1);
    beyond = std::max(beyond, worst_on(two_pass, e, {p}));
  }
  EXPECT_GT(beyond, 1);
}

// ln sum - (x_label - m) rounds twice where lse - x_label rounds once.
TEST(CrossEntropyForms, TheLargestMayBeSubtractedFirst) {
  Draw draw("plain", 3);
  for (int i = 0; i < effort(3000); ++i) {
    const auto m = static_cast<float>(0.001 * draw.uniform()),
               label = static_cast<float>(-40 - 20 * draw.uniform());
    Example e{"cross_entropy",
              {Matrix<double>(1, 2), Matrix<double>(1, 1, 1), Matrix<double>(1, 1, 1),
               Matrix<double>(1, 1, 1)},
              {},
              {1, fp32, fp32}};
    e.inputs[0].values = {static_cast<double>(m), static_cast<double>(label)};
    const float log_sum = std::log(1 + std::exp(label - m)), off = label - m;
    const Matrix<float> lse(1, 1, m + log_sum), loss(1, 1, log_sum - off);
    const std::string functions = fact("exp_ulp", "1") + fact("log_ulp", "1") +
                                  fact("divide_ulp", "0.5") + fact("fma", "as_written");
    EXPECT_LE(worst_on(card(functions), e, {lse, loss}), 1);
  }
}

// Products that are rounded before they are added, in a known order, of data that cancel.
TEST(ProductForms, UnfusedInAKnownOrderNeedsItsShare) {
  const Machine fused = card(fact("order", "sequential") + fact("fma", "as_written")),
                unfused = card(fact("order", "sequential") + fact("fma", "any"));
  double beyond = 0;
  for (int seed = 1; seed <= effort(300); ++seed) {
    Draw draw("cancelling", static_cast<unsigned>(seed));
    Example e{"gemm",
              {draw.matrix(1, 2), Matrix<double>(2, 1)},
              {{"transpose_a", 0}, {"transpose_b", 0}},
              {1, fp32, fp32}};
    e.inputs[1].values = {static_cast<double>(static_cast<float>(1 + draw.uniform())), 0};
    e.inputs[1].values[1] = e.inputs[1].values[0];
    const auto at = [&](std::size_t m, std::size_t k) {
      return static_cast<float>(e.inputs[m].values[k]);
    };
    const volatile float first = at(0, 0) * at(1, 0), second = at(0, 1) * at(1, 1);
    const Matrix<float> c(1, 1, first + second);
    EXPECT_LE(worst_on(unfused, e, {c}), 1) << seed;
    beyond = std::max(beyond, worst_on(fused, e, {c}));
  }
  EXPECT_GT(beyond, 1);
}

// What a rounded product loses may move partial sums over a power of two and back, so that steps round
// which would be exact.
TEST(ProductForms, WhatProductsLoseIsThereBeforeTheyAreAdded) {
  constexpr double g = 0x1p-24;
  std::vector<std::pair<double, double>> terms{
      {-8 * (1 + 0x1p-10), 1}, {1 + 0x1p-12, 8 * (1 + 3 * 0x1p-12)}, {1 - 33 * g, 1}};
  float kernel = 0;
  for (const auto& [a, b] : terms) {
    const volatile float product = static_cast<float>(a) * static_cast<float>(b);
    kernel += product;
  }
  for (int i = 0; i < 1000; ++i) {
    for (const double to : {1 + 3 * g, 1 - g}) {
      const double step = g * std::round((to - static_cast<double>(kernel)) / g);
      terms.emplace_back(step, 1);
      kernel += static_cast<float>(step);
    }
  }
  Example e{"gemm",
            {Matrix<double>(1, terms.size()), Matrix<double>(terms.size(), 1)},
            {{"transpose_a", 0}, {"transpose_b", 0}},
            {1, fp32, fp32}};
  for (std::size_t k = 0; k < terms.size(); ++k) {
    std::tie(e.inputs[0].values[k], e.inputs[1].values[k]) = terms[k];
  }
  const Matrix<float> c(1, 1, kernel);
  const std::string order = fact("order", "sequential");
  EXPECT_GT(worst_on(card(order + fact("fma", "as_written")), e, {c}), 10);
  EXPECT_LE(worst_on(card(order + fact("fma", "any")), e, {c}), 1);
}

// Products and sums that are flushed, in a known order.
TEST(ProductForms, FlushedInAKnownOrderNeedsItsShare) {
  const auto flushed = [](float x) { return std::fabs(x) < 0x1p-126F ? 0.0F : x; };
  const std::string order = fact("order", "sequential") + fact("fma", "any");
  double beyond = 0;
  for (int seed = 1; seed <= effort(40); ++seed) {
    Draw draw("plain", static_cast<unsigned>(seed));
    Example e{"gemm",
              {draw.matrix(1, 8), draw.matrix(8, 1)},
              {{"transpose_a", 0}, {"transpose_b", 0}},
              {1, fp32, fp32}};
    for (double& x : e.inputs[0].values) x = std::ldexp(x, -70);
    for (double& x : e.inputs[1].values) x = std::ldexp(x, -56);
    float c = 0;
    for (std::size_t k = 0; k < 8; ++k) {
      const volatile float product =
          static_cast<float>(e.inputs[0].values[k]) * static_cast<float>(e.inputs[1].values[k]);
      c = flushed(c + flushed(product));
    }
    const Matrix<float> y(1, 1, c);
    EXPECT_LE(worst_on(card(order + fact("subnormals", "flushed")), e, {y}), 1) << seed;
    beyond = std::max(beyond, worst_on(card(order + fact("subnormals", "kept")), e, {y}));
  }
  EXPECT_GT(beyond, 1);
}

// Where K u is a quarter nothing is known of the sum of sizes any more.
TEST(ProductForms, OfTooManyTermsHaveNoBound) {
  const std::size_t k = (std::size_t(1) << 22) + 8;
  const Example e{"gemm",
                  {Matrix<double>(1, k, 1), Matrix<double>(k, 1, 1)},
                  {{"transpose_a", 0}, {"transpose_b", 0}},
                  {1, fp32, fp32}};
  EXPECT_FALSE(tolerance_of(e));
}

// Both means are weighted, with reciprocals: four roundings in proportion to the mean at each join.
TEST(LayerNormForms, MeansMayBeWeighted) {
  const Machine updating = card(fact("form_layernorm", "welford") + fact("divide_ulp", "0.5"));
  for (const std::size_t n : {2, 3, 6, 12}) {
    Draw draw("plain", 11);
    Example e{"layernorm",
              {draw.moderate(2000, n, 1e-3, 1.02), Matrix<double>(n, 1, 1), Matrix<double>(n, 1)},
              {{"eps", 1e-5}},
              {1, fp32, fp32}};
    Matrix<float> y(2000, n);
    for (std::size_t t = 0; t < y.rows; ++t) {
      float mean = 0, squares = 0, count = 0;
      for (std::size_t j = 0; j < n; ++j) {
        const auto v = static_cast<float>(e.inputs[0](t, j));
        const float all = count + 1, inverse = 1 / all, off = v - mean;
        mean = (count * inverse) * mean + inverse * v;
        squares += off * off * count * inverse;
        count = all;
      }
      const float r = 1 / std::sqrt(squares / count + 1e-5F);
      for (std::size_t j = 0; j < n; ++j)
        y(t, j) = (static_cast<float>(e.inputs[0](t, j)) - mean) * r;
    }
    EXPECT_LE(worst_on(updating, e, {y}), 1) << n;
  }
}

// A quotient of two ulp in the place of a product with a sigma of two ulp.
TEST(SiluForms, AsOneQuotientErrsByItsOwnUlps) {
  const std::string functions = fact("exp_ulp", "1") + fact("divide_ulp", "2.5");
  double beyond = 0;
  Draw draw("plain", 13);
  for (int i = 0; i < effort(2000); ++i) {
    const auto x = static_cast<float>(8.01 + 0.2 * draw.uniform());
    const Example e{"silu", {Matrix<double>(1, 1, static_cast<double>(x))}, {}, {1, fp32, fp32}};
    const float y = x / (1 + std::exp(-x));
    const float off = std::nextafter(std::nextafter(y, 1e30F), 1e30F);
    EXPECT_LE(worst_on(card(functions), e, {Matrix<float>(1, 1, off)}), 1);
    beyond = std::max(beyond, worst_on(card(functions), e, {Matrix<float>(1, 1, off)}));
  }
  EXPECT_GT(beyond, 0.3);
}

}  // namespace
}  // namespace plumb::forms_test
