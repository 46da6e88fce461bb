// Is every gradient the derivative of its forward operation?
//
// Both are computed in 300 bits, so that nothing is lost to rounding, and compared by central
// differences D(h) = f' + h^2 f'''/6 + O(h^4). Of D(h) and D(h/2) the second is off by a quarter of
// what the first is, so by a third of their difference, up to O(h^4): with h = 2^-60 that is 2^-120
// of what it is a correction to, unless f''' vanishes; then it is O(h^4) as well. We allow the
// whole difference, three times as much. To it comes what 300 bits lose: some 2^12 roundings of
// 2^-300, relative to the numbers that meet, over h: 2^-220 of them is more.
//   Formulas with constants of FP64 on both sides (gelu: 3 a; gelu_erf: 1/sqrt 2 and 1/sqrt(2 pi))
// agree to an ulp of these: |x|^3 / 18 2^-53 for the one, |x| 0.4 (2^-52 + x^2 2^-53) for the
// other.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "bounds/examples/example.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::gradient_test {
namespace {

using Exact = Matrix<BigFloat>;
using Inputs = std::vector<Exact>;

Exact exactly(const Matrix<double>& x) { return converted<BigFloat>(x); }

Inputs of(const char* id, const Inputs& inputs, const Attributes& attributes = {},
          const Evaluation& how = {}) {
  NoRoundings<BigFloat> none;
  std::vector<const Exact*> pointers;
  for (const Exact& input : inputs) pointers.push_back(&input);
  return find_operation(id)->truth({pointers, attributes, how, none});
}

BigFloat along(const Exact& y, const Exact& dy) {
  BigFloat sum;
  for (std::size_t i = 0; i < y.size(); ++i) sum += y.values[i] * dy.values[i];
  return sum;
}

// `f` of the inputs is a number; `gradient` is said to be its derivative by input `which`.
// `apart(x, g)`: how far FP64 constants may move a derivative by x apart from g.
using Scalar = std::function<BigFloat(const Inputs&)>;
void expect_gradient(
    const char* what, Inputs inputs, std::size_t which, const Exact& gradient, const Scalar& f,
    double (*apart)(double) = [](double) { return 0.0; }) {
  ASSERT_EQ(gradient.size(), inputs[which].size()) << what;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const BigFloat x = inputs[which].values[i];
    double size = 0;
    const auto slope = [&](double h) {
      inputs[which].values[i] = x + BigFloat(h);
      const BigFloat up = f(inputs);
      inputs[which].values[i] = x - BigFloat(h);
      const BigFloat down = f(inputs);
      inputs[which].values[i] = x;
      size = std::fabs(static_cast<double>(up));
      return (up - down) / BigFloat(2 * h);
    };
    const BigFloat one = slope(0x1p-60), half = slope(0x1p-61);
    const double allowed = std::fabs(static_cast<double>(one - half)) + 0x1p-220 * (1 + size) +
                           apart(static_cast<double>(x));
    const double off = std::fabs(static_cast<double>(gradient.values[i] - half));
    ASSERT_LE(off, allowed) << what << " element " << i;
    ASSERT_LE(allowed, 0x1p-40 * (1 + std::fabs(static_cast<double>(half)))) << what;
  }
}

// The usual case: the forward operation's output 0, weighed by dy.
Scalar weighed(const char* id, const Exact& dy, const Attributes& attributes = {},
               const Evaluation& how = {}) {
  return [=](const Inputs& inputs) { return along(of(id, inputs, attributes, how)[0], dy); };
}

class Gradient : public testing::Test {
 protected:
  Draw draw{"plain", 6};
  Exact normal(std::size_t rows, std::size_t cols, double centre = 0) {
    return exactly(draw.moderate(rows, cols, 1, centre));
  }
};

TEST_F(Gradient, OfNorms) {
  const Exact x = normal(3, 8), w = normal(8, 1, 1), b = normal(8, 1), dy = normal(3, 8);
  const Attributes eps{{"eps", 1e-3}};
  const Scalar rms = weighed("rmsnorm", dy, eps), layer = weighed("layernorm", dy, eps);
  expect_gradient("rmsnorm dx", {x, w}, 0, of("rmsnorm_grad", {x, w, dy}, eps)[0], rms);
  expect_gradient("rmsnorm dw", {x, w}, 1, of("rmsnorm_wgrad", {x, w, dy}, eps)[0], rms);
  expect_gradient("layernorm dx", {x, w, b}, 0, of("layernorm_grad", {x, w, dy}, eps)[0], layer);
  const Inputs weights = of("layernorm_wgrad", {x, w, dy}, eps);
  expect_gradient("layernorm dw", {x, w, b}, 1, weights[0], layer);
  expect_gradient("layernorm db", {x, w, b}, 2, weights[1], layer);
}

TEST_F(Gradient, OfTheNormOfHeads) {
  const Attributes how{{"heads", 4}, {"kv_heads", 2}, {"head_dim", 2}, {"eps", 1e-3}};
  const Exact qkv = normal(3, 16), wq = normal(2, 1, 1), wk = normal(2, 1, 1), dy = normal(3, 16);
  const Scalar forward = weighed("head_norm", dy, how);
  const Inputs inputs{qkv, wq, wk}, weights = of("head_norm_wgrad", {qkv, wq, wk, dy}, how);
  expect_gradient("head_norm dqkv", inputs, 0, of("head_norm_grad", {qkv, wq, wk, dy}, how)[0],
                  forward);
  expect_gradient("head_norm dwq", inputs, 1, weights[0], forward);
  expect_gradient("head_norm dwk", inputs, 2, weights[1], forward);
}

TEST_F(Gradient, OfPackedHeads) {
  Attributes how{{"heads", 4}, {"kv_heads", 2}, {"head_dim", 4}, {"shared", 2}};
  const Exact q = normal(3, 16), kv = normal(3, 12), shared = normal(3, 2), dy = normal(3, 32);
  const Scalar packed = weighed("pack_heads", dy, how);
  const Inputs inputs{q, kv, shared}, apart = of("split_heads", {dy}, how);
  expect_gradient("dq", inputs, 0, apart[0], packed);
  expect_gradient("dkv", inputs, 1, apart[1], packed);
  expect_gradient("dshared", inputs, 2, of("shared_key_grad", {dy}, how)[0], packed);
}

double of_gelu(double x) { return std::fabs(x * x * x) / 18 * 0x1p-53; }
double of_gelu_erf(double x) { return 0.4 * std::fabs(x) * (0x1p-52 + x * x * 0x1p-53); }

TEST_F(Gradient, OfActivations) {
  const Exact x = normal(3, 8), dy = exactly(Matrix<double>(3, 8, 1)), half = normal(3, 4);
  expect_gradient("gelu", {x}, 0, of("gelu_grad", {x, dy})[0], weighed("gelu", dy), of_gelu);
  expect_gradient("gelu_erf", {x}, 0, of("gelu_erf_grad", {x, dy})[0], weighed("gelu_erf", dy),
                  of_gelu_erf);
  expect_gradient("silu", {x}, 0, of("silu_grad", {x, dy})[0], weighed("silu", dy));
  expect_gradient("swiglu", {x}, 0, of("swiglu_grad", {x, half})[0], weighed("swiglu", half));
}

// As one rank has it, and in a ring of two.
TEST_F(Gradient, OfAttention) {
  const Attributes heads{{"heads", 4}, {"kv_heads", 2}, {"head_dim", 2}, {"sequence", 4}};
  Attributes with_sinks = heads;
  with_sinks["sinks"] = 1;
  const Exact qkv = normal(8, 16), d_o = normal(8, 8), sinks = normal(4, 1);
  const Evaluation ring{2, fp32, fp32, {2, 4, 0, true}};
  for (const Evaluation& how : {Evaluation{}, ring}) {
    expect_gradient("attention", {qkv}, 0, of("attention_grad", {qkv, d_o}, heads, how)[0],
                    weighed("attention", d_o, heads, how));
    const Inputs both = of("attention_grad", {qkv, d_o, sinks}, with_sinks, how);
    const Scalar weighed_with = weighed("attention", d_o, with_sinks, how);
    expect_gradient("attention with sinks", {qkv, sinks}, 0, both[0], weighed_with);
    expect_gradient("sinks", {qkv, sinks}, 1, of("column_sum", {both[1]})[0], weighed_with);
    Attributes with_dropout = with_sinks;
    with_dropout.insert({{"rate", 0.25}, {"mask", 7}});
    const Inputs thin = of("attention_grad", {qkv, d_o, sinks}, with_dropout, how);
    const Scalar weighed_thin = weighed("attention", d_o, with_dropout, how);
    expect_gradient("attention with dropout", {qkv, sinks}, 0, thin[0], weighed_thin);
    expect_gradient("its sinks", {qkv, sinks}, 1, of("column_sum", {thin[1]})[0], weighed_thin);
  }
}

TEST_F(Gradient, OfSoftmaxAndRope) {
  const Exact x = normal(3, 8), dy = normal(3, 8);
  const Exact p = of("softmax", {x})[0];
  expect_gradient("softmax", {x}, 0, of("softmax_grad", {p, dy})[0], weighed("softmax", dy));
  const Exact qkv = normal(6, 16), d_qkv = normal(6, 16);
  for (const auto& [rotated, stretch] : {std::pair{4, 1}, {2, 1}, {4, 3}}) {
    Attributes heads{{"heads", 2}, {"kv_heads", 1}, {"head_dim", 4}, {"sequence", 3}};
    heads.insert({{"base", 100}, {"inverse", 0}, {"rotated", rotated}, {"stretch", stretch}});
    const Scalar turned = weighed("rope", d_qkv, heads);
    heads["inverse"] = 1;
    expect_gradient("rope", {qkv}, 0, of("rope", {d_qkv}, heads)[0], turned);
  }
}

TEST_F(Gradient, OfTheEnds) {
  const Exact ids = exactly(draw.whole(6, 5)), table = normal(5, 4), places = normal(3, 4);
  const Exact dy = normal(6, 4);
  const Scalar looked_up = weighed("embedding", dy);
  expect_gradient("embedding", {ids, table, places}, 1,
                  of("embedding_grad", {ids, dy}, {{"rows", 5}, {"period", 0}})[0], looked_up);
  expect_gradient("positions", {ids, table, places}, 2,
                  of("embedding_grad", {ids, dy}, {{"rows", 3}, {"period", 3}})[0], looked_up);
  const Exact labels = exactly(draw.whole(4, 7)), mask = exactly(draw.whole(4, 2));
  const Inputs inputs{normal(4, 7), labels, mask, exactly(Matrix<double>(1, 1, 3))};
  for (const double smoothing : {0.0, 0.125}) {
    const Attributes how{{"smoothing", smoothing}, {"weight", 0.75}};
    Inputs with_lse = inputs;
    with_lse.push_back(of("cross_entropy", inputs, how)[0]);
    expect_gradient("cross_entropy", inputs, 0, of("cross_entropy_grad", with_lse, how)[0],
                    [&](const Inputs& i) { return of("cross_entropy", i, how)[1].values[0]; });
  }
}

TEST_F(Gradient, OfDropoutIsItself) {
  const Attributes how{{"rate", 0.25}, {"key", 7}};
  const Exact x = normal(6, 5), dy = normal(6, 5);
  expect_gradient("dropout", {x}, 0, of("dropout", {dy}, how)[0], weighed("dropout", dy, how));
}

TEST_F(Gradient, OfProducts) {
  const Exact a = normal(3, 4), b = normal(4, 5), bias = normal(5, 1), dy = normal(3, 5);
  const auto how = [](double ta, double tb) {
    return Attributes{{"transpose_a", ta}, {"transpose_b", tb}};
  };
  const Scalar product = weighed("gemm", dy, how(0, 0));
  expect_gradient("gemm dA", {a, b, bias}, 0, of("gemm", {dy, b}, how(0, 1))[0], product);
  expect_gradient("gemm dB", {a, b, bias}, 1, of("gemm", {a, dy}, how(1, 0))[0], product);
  expect_gradient("gemm dbias", {a, b, bias}, 2, of("column_sum", {dy})[0], product);
}

// Four tokens, two of three experts each, the last expert without a row.
TEST_F(Gradient, OfAMixtureOfExperts) {
  Matrix<double> choice(4, 2);
  choice.values = {0, 1, 1, 0, 1, 0, 0, 1};
  const Exact ids = exactly(choice), x = normal(4, 3), rows = normal(8, 3);
  const Exact dy = normal(4, 3), d_rows = normal(8, 3), p = of("softmax", {normal(4, 3)})[0];
  const Attributes experts{{"experts", 3}, {"transpose_b", 0}};
  Attributes transposed = experts;
  transposed["transpose_b"] = 1;

  expect_gradient("dispatch", {x, ids}, 0, of("dispatch_grad", {d_rows, ids}, experts)[0],
                  weighed("dispatch", d_rows, experts));
  const Scalar combined = weighed("combine", dy);
  expect_gradient("combine", {rows, p, ids}, 0, of("combine_grad", {dy, p, ids})[0], combined);
  expect_gradient("weights", {rows, p, ids}, 1,
                  of("combine_weight_grad", {dy, rows, ids}, experts)[0], combined);

  Inputs inputs{rows, ids};
  for (int i = 0; i < 3; ++i) inputs.push_back(normal(3, 4));
  for (int i = 0; i < 3; ++i) inputs.push_back(normal(4, 1));
  const Exact d_out = normal(8, 4);
  const Scalar product = weighed("grouped_gemm", d_out, experts);
  const Inputs d_in = of("grouped_gemm", {d_out, ids, inputs[2], inputs[3], inputs[4]}, transposed);
  expect_gradient("grouped dA", inputs, 0, d_in[0], product);
  const Inputs weights = of("grouped_wgrad", {rows, d_out, ids}, experts);
  const Inputs biases = of("grouped_column_sum", {d_out, ids}, experts);
  for (std::size_t e = 0; e < 3; ++e) {
    expect_gradient("grouped dB", inputs, 2 + e, weights[e], product);
    expect_gradient("grouped dbias", inputs, 5 + e, biases[e], product);
  }
}

// What comes back from the experts, the balance of their loads, and the size of the logits.
TEST_F(Gradient, OfTheRouter) {
  const Exact logits = normal(4, 3), d_p = normal(4, 3), counts = exactly(draw.whole(3, 9));
  const Attributes how{{"k", 2}, {"balance", 0.75}, {"z", 0.25}};
  const auto p_of = [&](const Exact& x) { return of("router", {x}, how)[0]; };
  const auto lse_of = [&](const Exact& x) { return of("router", {x}, how)[2]; };
  const Scalar loss = [&](const Inputs& i) {
    return along(p_of(i[0]), d_p) + of("balance_loss", {p_of(i[0]), counts}, how)[0].values[0] +
           of("z_loss", {lse_of(i[0])}, how)[0].values[0];
  };
  expect_gradient("router", {logits}, 0,
                  of("router_grad", {p_of(logits), d_p, counts, lse_of(logits)}, how)[0], loss);
}

}  // namespace
}  // namespace plumb::gradient_test
