// `value` is the mathematics: against MPFR for the forward formulas. Gradients: gradient_test.cpp.
#include <gtest/gtest.h>

#include "bounds/examples/example.hpp"
#include "bounds/proof/exact.hpp"
#include "number/product.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::value_test {
namespace {

// FP64 loses a few thousand roundings at most: 2^12 x 2^-53, relative to the sizes that meet.
constexpr double fp64_loss = 0x1p-41;

std::vector<double> column(const Matrix<double>& m, std::size_t j) {
  std::vector<double> v;
  for (std::size_t i = 0; i < m.rows; ++i) v.push_back(m(i, j));
  return v;
}
std::vector<double> row(const Matrix<double>& m, std::size_t i) {
  return {m.row(i), m.row(i) + m.cols};
}

TEST(Value, OfGemmIsTheExactProduct) {
  for (int seed = 1; seed <= effort(20); ++seed) {
    Draw draw(input_kinds[static_cast<std::size_t>(seed) % input_kinds.size()],
              static_cast<unsigned>(seed));
    const Example e = example_of("gemm", draw);
    const auto c = value_of(e)[0];
    const bool ta = e.attributes.at("transpose_a") != 0;
    const bool tb = e.attributes.at("transpose_b") != 0;
    for (std::size_t i = 0; i < c.rows; ++i) {
      for (std::size_t j = 0; j < c.cols; ++j) {
        const auto a = ta ? column(e.inputs[0], i) : row(e.inputs[0], i);
        const auto b = tb ? row(e.inputs[1], j) : column(e.inputs[1], j);
        const double bias = e.inputs.size() == 3 ? e.inputs[2].values[j] : 0;
        double size = std::fabs(bias);
        for (std::size_t k = 0; k < a.size(); ++k) size += std::fabs(a[k] * b[k]);
        ASSERT_LE(distance_from_dot(c(i, j), a, b, bias), fp64_loss * size) << seed;
      }
    }
  }
}

TEST(Value, OfNormsIsTheExactNorm) {
  for (const char* kind : {"plain", "spread", "tiny", "positive"}) {
    Draw draw(kind, 5);
    for (int i = 0; i < 10; ++i) {
      for (const char* id : {"rmsnorm", "layernorm"}) {
        const Example e = example_of(id, draw);
        const auto y = value_of(e)[0];
        const auto x = row(e.inputs[0], 0);
        const auto exact = id == std::string("rmsnorm")
                               ? exact_rmsnorm(x, e.inputs[1].values, 1e-5)
                               : exact_layernorm(x, e.inputs[1].values, e.inputs[2].values, 1e-5);
        for (std::size_t j = 0; j < x.size(); ++j) {
          const double size = std::fabs(exact[j]) + 1 +
                              (e.inputs.size() == 3 ? std::fabs(e.inputs[2].values[j]) : 0);
          ASSERT_NEAR(y(0, j), exact[j], fp64_loss * size) << id << kind;
        }
      }
    }
  }
}

// Of two query heads, their key and their value, each row is what rmsnorm makes of it.
TEST(Value, OfTheNormOfHeadsIsThatOfTheirRows) {
  Draw draw("plain", 9);
  const Matrix<double> qkv = draw.moderate(3, 16, 1), wq = draw.moderate(4, 1, 0.3, 1),
                       wk = draw.moderate(4, 1, 0.3, 1);
  const Attributes how{{"heads", 2}, {"kv_heads", 1}, {"head_dim", 4}, {"eps", 1e-5}};
  const auto y = value_of({"head_norm", {qkv, wq, wk}, how, {}})[0];
  for (std::size_t t = 0; t < 3; ++t) {
    for (std::size_t h = 0; h < 4; ++h) {
      const std::span<const double> x(qkv.row(t) + 4 * h, 4);
      const auto exact = exact_rmsnorm(x, h == 2 ? wk.values : wq.values, 1e-5);
      for (std::size_t j = 0; j < 4; ++j) {
        const double expected = h == 3 ? x[j] : exact[j];
        EXPECT_NEAR(y(t, 4 * h + j), expected, fp64_loss * (std::fabs(expected) + 1));
      }
    }
  }
}

// Two groups of two queries; of the two columns of a key the second is shared.
TEST(Value, OfPackedHeadsIsEachColumnInItsPlace) {
  const auto line = [](const std::vector<double>& values) {
    Matrix<double> m(1, values.size());
    m.values.assign(values.begin(), values.end());
    return m;
  };
  const Matrix<double> q = line({1, 2, 3, 4, 5, 6, 7, 8}), kv = line({11, 12, 13, 14, 15, 16});
  Attributes how{{"heads", 4}, {"kv_heads", 2}, {"head_dim", 2}};
  const auto packed = value_of({"pack_heads", {q, kv, line({20})}, how, {}})[0];
  EXPECT_EQ(packed, line({1, 2, 3, 4, 11, 20, 12, 13, 5, 6, 7, 8, 14, 20, 15, 16}));
  how["shared"] = 1;
  EXPECT_EQ(value_of({"split_heads", {packed}, how, {}}), (std::vector{q, kv}));
  EXPECT_EQ(value_of({"shared_key_grad", {packed}, how, {}})[0], line({40}));
}

// One pass and two give the same number, and only the first loses it to a large mean.
TEST(Value, OfLayerNormIsTheSameInOnePass) {
  Draw draw("plain", 6);
  Example e{"layernorm",
            {draw.moderate(2, 64, 1, 100), draw.moderate(64, 1, 1), draw.moderate(64, 1, 1)},
            {{"eps", 1e-5}},
            {}};
  const auto two = value_of(e)[0];
  const double wide = tolerance_of(e)->bound[0].values[0];
  e.attributes["one_pass"] = 1;
  const auto one = value_of(e)[0];
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one.values[i], two.values[i], 1e-10);
  EXPECT_GT(tolerance_of(e)->bound[0].values[0], 10 * wide);
  Comparison seen;
  judge(e, evaluation_of(e), seen);
  EXPECT_EQ(seen.violations, 0U);
}

TEST(Value, OfCrossEntropyAndActivationsMatchMpfr) {
  for (const char* kind : {"plain", "spread"}) {
    Draw draw(kind, 3);
    Example e = example_of("cross_entropy", draw);
    e.attributes = {{"smoothing", 0}, {"weight", 1}};
    const auto lse = value_of(e)[0];
    double loss = 0;
    for (std::size_t t = 0; t < lse.rows; ++t) {
      const double exact = exact_log_sum_exp(row(e.inputs[0], t));
      EXPECT_NEAR(lse.values[t], exact, fp64_loss * std::fabs(exact));
      const auto label = static_cast<std::size_t>(e.inputs[1].values[t]);
      loss += (exact - e.inputs[0](t, label)) * e.inputs[2].values[t];
    }
    EXPECT_NEAR(value_of(e)[1].values[0], loss / e.inputs[3].values[0], 1e-10);
    const Example s = example_of("swiglu", draw);
    const auto y = value_of(s)[0];
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double g = s.inputs[0].values[2 * i];
      const double exact = g * exact_sigmoid(g) * s.inputs[0].values[2 * i + 1];
      EXPECT_NEAR(y.values[i], exact, fp64_loss * std::fabs(exact));
    }
  }
}

// Left out or divided by what is kept on average; by chance, so often as asked: within four
// standard deviations of a binomial. Another key leaves out others.
TEST(Value, OfDropoutKeepsSomeAndTheMean) {
  constexpr std::size_t n = 100000;
  Example e{"dropout", {Matrix<double>(n / 100, 100, 3)}, {{"rate", 0.1}, {"key", 5}}, {}};
  const auto y = value_of(e)[0];
  std::size_t left_out = 0;
  for (const double v : y.values) {
    left_out += v == 0 ? 1 : 0;
    ASSERT_NEAR(v, v == 0 ? 0 : 3 / 0.9, 3 * fp64_loss);
  }
  EXPECT_NEAR(static_cast<double>(left_out), 0.1 * n, 4 * std::sqrt(0.1 * 0.9 * n));
  e.attributes["key"] = 6;
  const auto other = value_of(e)[0];
  std::size_t differ = 0;
  for (std::size_t i = 0; i < n; ++i) differ += (y.values[i] == 0) != (other.values[i] == 0);
  EXPECT_NEAR(static_cast<double>(differ), 0.18 * n, 4 * std::sqrt(0.18 * 0.82 * n));
}

TEST(Value, OfSoftmaxIsThatOfMpfrAndMergesFromParts) {
  for (const char* kind : {"plain", "spread"}) {
    Draw draw(kind, 4);
    const Matrix<double> x = draw.moderate(3, 24, kind == std::string("spread") ? 40 : 3);
    const auto p = value_of({"softmax", {x}, {}, {}})[0];
    const auto l = value_of({"log_sum_exp", {x}, {}, {}})[0];
    const Matrix<double> values = draw.moderate(24, 5, 1);
    // Three ranks with eight keys each: their own softmax times values, and their own l.
    std::vector<Matrix<double>> shares;
    for (std::size_t r = 0; r < 3; ++r) {
      Matrix<double> own(3, 8), keys(8, 5);
      for (std::size_t t = 0; t < 3; ++t) {
        for (std::size_t j = 0; j < 8; ++j) own(t, j) = x(t, 8 * r + j);
      }
      for (std::size_t j = 0; j < 8; ++j) {
        for (std::size_t d = 0; d < 5; ++d) keys(j, d) = values(8 * r + j, d);
      }
      const auto weights = value_of({"softmax", {own}, {}, {}})[0];
      shares.push_back(product(view(weights), view(keys)));
      shares.push_back(value_of({"log_sum_exp", {own}, {}, {}})[0]);
    }
    const auto merged = value_of({"softmax_merge", shares, {}, {}});
    const auto whole = product(view(p), view(values));
    for (std::size_t t = 0; t < 3; ++t) {
      const auto exact = exact_softmax(row(x, t));
      for (std::size_t j = 0; j < 24; ++j) EXPECT_NEAR(p(t, j), exact[j], 1e-15);
      EXPECT_NEAR(l.values[t], exact_log_sum_exp(row(x, t)), 1e-14 * std::fabs(l.values[t]));
      EXPECT_NEAR(merged[1].values[t], l.values[t], 1e-13);
      for (std::size_t d = 0; d < 5; ++d) EXPECT_NEAR(merged[0](t, d), whole(t, d), 1e-13);
    }
  }
}

TEST(Value, OfAmaxScaleIsTheLargestPowerOfTwoThatFits) {
  for (const Format& to : {e4m3fn, e5m2}) {
    for (const double amax : {1e-40, 3e-20, 0.4, 7.0, 448.0, 448.5, 1e30}) {
      const auto x = static_cast<double>(static_cast<float>(amax));
      const Matrix<double> tensor(1, 3, -x);
      const double s =
          value_of({"amax_scale", {tensor}, {{"largest", to.largest()}}, {}})[0].values[0];
      EXPECT_EQ(s, std::exp2(std::round(std::log2(s))));
      EXPECT_LE(x * s, to.largest());
      EXPECT_TRUE(2 * x * s > to.largest() || s == 0x1p126) << amax;
    }
  }
  const auto of = [](double x) {
    return value_of({"amax_scale", {Matrix<double>(2, 2, x)}, {{"largest", 448}}, {}})[0].values[0];
  };
  EXPECT_EQ(of(0), 1);
  EXPECT_EQ(of(HUGE_VAL), 1);
  EXPECT_EQ(of(NAN), 1);
}

TEST(Value, OfQuantizeIsTheNumberItself) {
  Draw draw("plain", 4);
  const Example e = example_of("quantize", draw);
  const auto y = value_of(e)[0];
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_NEAR(y.values[i], e.inputs[0].values[i], 1e-15 * std::fabs(y.values[i]));
  }
}

TEST(Value, OfGeluIsTheTanhForm) {
  for (double x = -6; x < 6; x += 0.37) {
    const Example e{"gelu", {Matrix<double>(1, 1, x)}, {}, {}};
    const double tanh_form =
        x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    EXPECT_NEAR(value_of(e)[0].values[0], tanh_form, 1e-15);
  }
}

TEST(Value, OfActivationsAreTheirFormulas) {
  for (double x = -6; x < 6; x += 0.37) {
    const auto of = [x](const char* id) {
      return value_of({id, {Matrix<double>(1, 1, x)}, {}, {}})[0].values[0];
    };
    EXPECT_NEAR(of("gelu_erf"), x * std::erfc(-x / std::sqrt(2)) / 2, 1e-15);
    EXPECT_NEAR(of("silu"), x / (1 + std::exp(-x)), 1e-15);
    EXPECT_EQ(of("squared_relu"), x > 0 ? x * x : 0);
  }
}

// Without a sink and with one, which takes its share of each row and gives nothing.
TEST(Value, OfAttentionIsSoftmaxTimesValues) {
  Draw draw("plain", 2);
  const Matrix<double> qkv = draw.moderate(5, 12, 1);  // one head of 4, one key, one value
  Example e{
      "attention", {qkv}, {{"heads", 1}, {"kv_heads", 1}, {"head_dim", 4}, {"sequence", 5}}, {}};
  for (const bool sink : {false, true}) {
    if (sink) {
      e.attributes["sinks"] = 1;
      e.inputs.emplace_back(1, 1, 0.75);
    }
    const auto o = value_of(e)[0];
    for (std::size_t i = 0; i < 5; ++i) {
      std::vector<double> scores;
      for (std::size_t j = 0; j <= i; ++j) {
        const std::span<const double> q(qkv.row(i), 4);
        const std::span<const double> k(qkv.row(j) + 4, 4);
        scores.push_back(exact_dot(q, k) / 2);
      }
      if (sink) scores.push_back(0.75);
      const auto p = exact_softmax(scores);
      for (std::size_t c = 0; c < 4; ++c) {
        double sum = 0;
        for (std::size_t j = 0; j <= i; ++j) sum += p[j] * qkv(j, 8 + c);
        EXPECT_NEAR(o(i, c), sum, 1e-14);
      }
    }
  }
}

// Where keys come round in turns, nothing but roundings changes.
TEST(Value, OfAttentionInARingIsThatOfOneRank) {
  int rings = 0;
  for (const char* id : {"attention", "attention_grad"}) {
    for (unsigned seed = 1; seed <= 60; ++seed) {
      Draw draw("plain", seed);
      Example e = example_of(id, draw);
      if (!e.how.tokens.ring) continue;
      ++rings;
      const auto in_turns = value_of(e);
      e.how = {};
      const auto alone = value_of(e);
      for (std::size_t o = 0; o < alone.size(); ++o) {
        double largest = 0;
        for (const double x : alone[o].values) largest = std::max(largest, std::fabs(x));
        for (std::size_t i = 0; i < alone[o].size(); ++i) {
          ASSERT_NEAR(in_turns[o].values[i], alone[o].values[i], fp64_loss * largest) << id << seed;
        }
      }
    }
  }
  EXPECT_GT(rings, 10);
}

// By positions in the sequence, and in documents where these are given; all columns of a head, or
// its last ones.
class ValueOfRope : public testing::TestWithParam<bool> {};

TEST_P(ValueOfRope, TurnsAndTurnsBack) {
  Draw draw("plain", 8);
  Example e = example_of("rope", draw);
  const std::size_t rotated = GetParam() ? 4 : static_cast<std::size_t>(e.attributes["head_dim"]);
  e.attributes["rotated"] = static_cast<double>(rotated);
  e.attributes["inverse"] = 0;
  const auto turned = value_of(e);
  const auto dim = static_cast<std::size_t>(e.attributes["head_dim"]);
  const auto sequence = static_cast<std::size_t>(e.attributes["sequence"]);
  ASSERT_EQ(e.inputs.size(), 2U);
  for (std::size_t t = 0; t < turned[0].rows; ++t) {
    ASSERT_LE(e.inputs[1].values[t], static_cast<double>(t % sequence));
    for (std::size_t i = 0; i < dim - rotated; ++i) EXPECT_EQ(turned[0](t, i), e.inputs[0](t, i));
    for (std::size_t i = 0; i < rotated / 2; ++i) {
      const double frequency =
          std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(rotated));
      const double angle = e.inputs[1].values[t] * frequency;
      const std::size_t at = dim - rotated + i;
      const double x = e.inputs[0](t, at), y = e.inputs[0](t, at + rotated / 2);
      EXPECT_NEAR(turned[0](t, at), x * exact_cos(angle) - y * exact_sin(angle), 1e-13);
    }
  }
  e.inputs[0] = turned[0];
  e.attributes["inverse"] = 1;
  Draw again("plain", 8);
  const auto original = example_of("rope", again).inputs[0];
  const auto back = value_of(e)[0];
  for (std::size_t i = 0; i < back.size(); ++i)
    EXPECT_NEAR(back.values[i], original.values[i], 1e-13);
}
INSTANTIATE_TEST_SUITE_P(Bounds, ValueOfRope, testing::Bool());

TEST(Value, OfAdamAndClippingIsTheFormula) {
  const auto one = [](double x) { return Matrix<double>(1, 1, x); };
  const auto y =
      value_of({"adam",
                {one(2), one(0.5), one(0.25), one(-1)},
                {{"lr", 0.1}, {"beta1", 0.9}, {"beta2", 0.99}, {"eps", 1e-8}, {"step", 3}},
                {}});
  const double m = 0.9 * 0.5 - 0.1;
  const double v = 0.99 * 0.25 + 0.01;
  EXPECT_NEAR(y[0].values[0], m, 1e-15);
  EXPECT_NEAR(y[1].values[0], v, 1e-15);
  const double step =
      0.1 * m / (1 - std::pow(0.9, 3)) / (std::sqrt(v / (1 - std::pow(0.99, 3))) + 1e-8);
  EXPECT_NEAR(y[2].values[0], 2 - step, 1e-14);
  const auto decayed = value_of({"adam",
                                 {one(2), one(0.5), one(0.25), one(-1)},
                                 {{"lr", 0.1},
                                  {"beta1", 0.9},
                                  {"beta2", 0.99},
                                  {"eps", 1e-8},
                                  {"step", 3},
                                  {"weight_decay", 0.5}},
                                 {}});
  EXPECT_NEAR(decayed[2].values[0], 2 * (1 - 0.1 * 0.5) - step, 1e-14);
  EXPECT_EQ(value_of({"grad_norm", {one(3), one(4)}, {}, {}})[0].values[0], 5);
  EXPECT_EQ(value_of({"clip", {one(0.5)}, {{"max_norm", 1}}, {}})[0].values[0], 1);
  EXPECT_NEAR(value_of({"clip", {one(4)}, {{"max_norm", 1}}, {}})[0].values[0], 1 / 4.000001,
              1e-15);
}

}  // namespace
}  // namespace plumb::value_test
