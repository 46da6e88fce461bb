// Do products of cast operands stay within their bound, on emulated matrix units and in FP32, and
// is the bound that of the unit and of the casts at hand?
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "bounds/cast_product.hpp"
#include "bounds/cast_sums.hpp"
#include "bounds/examples/draw.hpp"
#include "bounds/examples/example.hpp"
#include "bounds/on_machine.hpp"
#include "kernels/mma/product.hpp"
#include "number/rounding.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::cast_product_test {
namespace {

using Scaled = CastRule::Scaled;

// The operands and the promotion of a recipe's product.
struct Case {
  const char* name;
  CastRule a, b;
  std::size_t promotion = 0;
};

const CastRule e4m3{e4m3fn, Scaled::by_tensor}, e5m2_gradient{e5m2, Scaled::by_tensor};
const Case fp8{"fp8", e4m3, e4m3}, mixed{"mixed", e5m2_gradient, e4m3},
    fp8_block{"fp8-block",
              {e4m3fn, Scaled::by_blocks, 128, 1, ScaleRule::exact},
              {e4m3fn, Scaled::by_blocks, 128, 128, ScaleRule::exact},
              128},
    promoted{"promoted", e4m3, e4m3, 256}, tf32_product{"tf32", {tf32}, {tf32}},
    mxfp8{"mxfp8",
          {e4m3fn, Scaled::by_blocks, 32, 1, ScaleRule::ceil},
          {e4m3fn, Scaled::by_blocks, 32, 1, ScaleRule::ceil}},
    nvfp4{"nvfp4",
          {e2m1, Scaled::by_blocks, 16, 1, ScaleRule::nested},
          {e2m1, Scaled::by_blocks, 16, 16, ScaleRule::nested}},
    nvfp4_gradient{"nvfp4 gradient",
                   {e2m1, Scaled::by_blocks, 16, 1, ScaleRule::nested, true},
                   {e2m1, Scaled::by_blocks, 16, 16, ScaleRule::nested}},
    by_reciprocals{"nvfp4 by reciprocals",
                   {e2m1, Scaled::by_blocks, 16, 1, ScaleRule::nested_reciprocal, true},
                   {e2m1, Scaled::by_blocks, 16, 16, ScaleRule::nested_reciprocal}};

// Kinds of data whose scales stay in the range that the bound is for.
constexpr std::array kinds{"plain", "cancelling", "spread", "positive", "powers"};

CastOperand drawn(Draw& draw, const CastRule& rule, std::size_t rows, std::size_t n,
                  std::uint64_t key = 1) {
  Matrix<double> x = draw.matrix(rows, n, rule.format == tf32 ? fp32 : bf16);
  const double largest = largest_magnitude(x);
  return cast_operand(std::move(x), rule, largest, 1, key);
}

// How FP32 scales and adds the sum of a chain.
enum class Way { scales_first, fused, one_by_one };

float joined(float sum, float chain, float a, float b, Way way) {
  if (way == Way::fused) return std::fma(chain, a * b, sum);
  return sum + (way == Way::scales_first ? chain * (a * b) : chain * a * b);
}

std::size_t block_of(const CastOperand& x, std::size_t k) {
  return static_cast<std::size_t>(std::ranges::upper_bound(x.begins, k) - x.begins.begin()) - 1;
}

// Where chains begin, and K: counted here, not by the bound.
std::vector<std::size_t> chains(const CastProductCall& call) {
  const std::size_t n = call.a.codes.cols;
  std::vector<std::size_t> begins{0};
  for (std::size_t k = 1; k < n; ++k) {
    const bool promotes = call.promotion > 0 && k % call.promotion == 0;
    const bool rescales = block_of(call.a, k) != block_of(call.a, k - 1) ||
                          block_of(call.b, k) != block_of(call.b, k - 1);
    if (promotes || rescales) begins.push_back(k);
  }
  begins.push_back(n);
  return begins;
}

// The product as a kernel on the unit makes it.
Tensor on_unit(const CastProductCall& call, const Mma& unit, Way way) {
  const Tensor a = converted<float>(call.a.codes), b = converted<float>(call.b.codes);
  if (unit.block > 0) {
    const Tensor of_a = converted<float>(call.a.scales), of_b = converted<float>(call.b.scales);
    return mma_product(view(a), view(b, true), {view(of_a), view(of_b, true)}, unit);
  }
  Tensor c(a.rows, b.rows);
  const std::vector<std::size_t> begins = chains(call);
  for (std::size_t s = 0; s + 1 < begins.size(); ++s) {
    const Tensor chain = mma_product(columns(view(a), begins[s], begins[s + 1]),
                                     rows(view(b, true), begins[s], begins[s + 1]), unit);
    for (std::size_t i = 0; i < c.rows; ++i) {
      for (std::size_t j = 0; j < c.cols; ++j) {
        const auto of_a = static_cast<float>(call.a.scales(i, block_of(call.a, begins[s])));
        const auto of_b = static_cast<float>(call.b.scales(j, block_of(call.b, begins[s])));
        c(i, j) = joined(c(i, j), chain(i, j), of_a, of_b, way);
      }
    }
  }
  return c;
}

// Largest error over bound, of the product given the codes and of the whole.
struct Seen {
  double given = 0, whole = 0;
  std::size_t elements = 0, outside = 0;
};

// x y, whose errors the bound's share `judge` exceeds.
double dot(const double* x, const double* y, std::size_t n) {
  long double sum = 0;
  for (std::size_t k = 0; k < n; ++k) sum += static_cast<long double>(x[k]) * y[k];
  return static_cast<double>(sum);
}

struct Truth {
  explicit Truth(const CastProductCall& call)
      : given(call.a.codes.rows, call.b.codes.rows), whole(given) {
    const Matrix<double> a = call.a.exact(), b = call.b.exact();
    for (std::size_t i = 0; i < a.rows; ++i) {
      for (std::size_t j = 0; j < b.rows; ++j) {
        given(i, j) = dot(a.row(i), b.row(j), a.cols);
        whole(i, j) = dot(call.a.input.row(i), call.b.input.row(j), a.cols);
      }
    }
  }
  Matrix<double> given, whole;
};

void judge(Tensor c, const CastProductCall& call, const CastProduct& bound, const Truth& truth,
           Seen& seen) {
  round_in_place(c.values, call.how.output);
  for (std::size_t e = 0; e < c.size(); ++e) {
    const double made = c.values[e];
    const auto ratio = [&](double sought, const Tolerance& t) {
      const double error = std::fabs(made - sought);
      return error == 0 ? 0 : error / t.bound[0].values[e];
    };
    const double given = ratio(truth.given.values[e], bound.given_codes);
    const double whole = ratio(truth.whole.values[e], bound.whole);
    ++seen.elements;
    seen.outside += given <= 1 && whole <= 1 ? 0 : 1;
    seen.given = std::max(seen.given, given);
    seen.whole = std::max(seen.whole, whole);
  }
}

// Products of one recipe on one card, of every kind of data.
Seen seen_on(const char* card, const Case& of, const Format& output) {
  Seen seen;
  for (const char* kind : kinds) {
    for (int seed = 0; seed < effort(2); ++seed) {
      Draw draw(kind, static_cast<unsigned>(seed) + 1);
      const std::size_t n = draw.between(1, 700);
      const CastOperand a = drawn(draw, of.a, 20, n), b = drawn(draw, of.b, 20, n);
      const CastProductCall call{a, b, of.promotion, {1, fp32, output}};
      const auto bound = cast_product_on(*find_machine(card), call);
      EXPECT_TRUE(bound) << of.name << " on " << card << ": " << bound.error().detail;
      if (!bound) continue;
      const Mma unit = *unit_for(*find_machine(card), call);
      const Truth truth(call);
      for (const Way way : {Way::scales_first, Way::fused, Way::one_by_one}) {
        judge(on_unit(call, unit, way), call, *bound, truth, seen);
      }
    }
  }
  return seen;
}

// The goal: 10^5 elements over recipes and cards.
TEST(CastProduct, OnAMatrixUnitStaysWithinItsBound) {
  std::size_t elements = 0;
  double given = 0;
  for (const char* card : {"a100", "ada", "h100", "b200"}) {
    for (const Case& of : {fp8, mixed, fp8_block, promoted, tf32_product, mxfp8}) {
      const Machine& machine = *find_machine(card);
      const bool scales = of.a.scales == ScaleRule::ceil && of.a.in_blocks();
      const bool has =
          (scales ? machine.mma_scaling(of.a.format, of.b.format) : machine.mma(of.a.format))
              .has_value();
      for (const Format& output : {fp32, bf16}) {
        if (!has) continue;
        const Seen seen = seen_on(card, of, output);
        EXPECT_EQ(seen.outside, 0U) << of.name << " on " << card;
        EXPECT_GT(seen.whole, output == bf16 ? 0.5 : 0.1) << of.name << " on " << card;
        elements += seen.elements;
        if (output == fp32) given = std::max(given, seen.given);
      }
    }
  }
  if (effort(100) >= 100) {
    EXPECT_GE(elements, 100000U);
  }
  EXPECT_GT(given, 0.5);
}

// Data on which truncation adds up.
struct Long {
  CastOperand a, b;
  CastProductCall call(const Case& of) const { return {a, b, of.promotion}; }
};
Long positive(const Case& of, std::size_t n) {
  Draw draw("positive", 3);
  CastOperand a = drawn(draw, of.a, 32, n);
  return {std::move(a), drawn(draw, of.b, 32, n)};
}

Seen seen_of(const CastProductCall& call, const CastProduct& bound, const Mma& unit) {
  Seen seen;
  judge(on_unit(call, unit, Way::fused), call, bound, Truth(call), seen);
  return seen;
}

// The answer for another unit would not do: BF16's on the same card, which `plumb bound` gave once.
TEST(CastProduct, OfFp8LiesOutsideTheBoundOfBf16) {
  const Long of = positive(fp8, 4096);
  const CastProductCall call = of.call(fp8);
  const Machine& h100 = *find_machine("h100");
  const auto bound = cast_product_on(h100, call);
  ASSERT_TRUE(bound);
  EXPECT_EQ(seen_of(call, *bound, *h100.mma(e4m3fn)).outside, 0U);
  const Matrix<double> a = of.a.exact(), b = of.b.exact();
  const Attributes attributes{{"transpose_a", 0}, {"transpose_b", 1}};
  const std::vector<Matrix<double>> values{bound->of_codes};
  const auto old =
      tolerance_on(h100, *find_operation("gemm"),
                   {{&a, &b}, attributes, {1, fp32, fp32}, Mode::deterministic, 0, values}, bf16);
  ASSERT_TRUE(old);
  CastProduct as_bf16 = *bound;
  as_bf16.given_codes.bound = old->bound;
  EXPECT_GT(seen_of(call, as_bf16, *h100.mma(e4m3fn)).outside, 1000U);
}

// Nor that of a unit with more bits, or of a kernel that promotes oftener.
TEST(CastProduct, OfFewerBitsOrLongerChainsLiesOutside) {
  const Machine& h100 = *find_machine("h100");
  const Long of = positive(fp8_block, 4096);
  const CastProductCall call = of.call(fp8_block);
  const auto bound = cast_product_on(h100, call);
  ASSERT_TRUE(bound);
  Mma unit = *h100.mma(e4m3fn);
  EXPECT_EQ(seen_of(call, *bound, unit).outside, 0U);
  unit.grid = unit.kept = 11;
  EXPECT_GT(seen_of(call, *bound, unit).outside, 0U);

  const Long tensor = positive(fp8, 4096);
  const CastProductCall often{tensor.a, tensor.b, 128}, never{tensor.a, tensor.b, 0};
  const auto promised = cast_product_on(h100, often);
  ASSERT_TRUE(promised);
  EXPECT_EQ(seen_of(often, *promised, *h100.mma(e4m3fn)).outside, 0U);
  EXPECT_GT(seen_of(never, *promised, *h100.mma(e4m3fn)).outside, 0U);
}

// FP32 loops over the scaled numbers in several orders, and over codes whose chains are scaled.
std::vector<Tensor> in_fp32(const CastProductCall& call) {
  const Tensor a = converted<float>(call.a.in_fp32()), b = converted<float>(call.b.in_fp32());
  const Tensor x = converted<float>(call.a.codes), y = converted<float>(call.b.codes);
  const Tensor zeros(a.rows, b.rows);
  std::vector<Tensor> made(4, zeros);
  const std::size_t n = a.cols;
  for (std::size_t e = 0; e < zeros.size(); ++e) {
    const std::size_t i = e / b.rows, j = e % b.rows;
    float chain = 0;
    std::vector<float> tree(n);
    for (std::size_t k = 0; k < n; ++k) {
      tree[k] = a(i, k) * b(j, k);
      made[0].values[e] += tree[k];
      made[1].values[e] = std::fma(a(i, n - 1 - k), b(j, n - 1 - k), made[1].values[e]);
      chain += x(i, k) * y(j, k);
      const std::size_t of_a = block_of(call.a, k), of_b = block_of(call.b, k);
      const bool ends =
          k + 1 == n || block_of(call.a, k + 1) != of_a || block_of(call.b, k + 1) != of_b;
      if (!ends) continue;
      made[3].values[e] =
          joined(made[3].values[e], chain, static_cast<float>(call.a.scales(i, of_a)),
                 static_cast<float>(call.b.scales(j, of_b)), Way::scales_first);
      chain = 0;
    }
    for (std::size_t m = n; m > 1; m = (m + 1) / 2) {
      for (std::size_t k = 0; k < m / 2; ++k) tree[k] += tree[m - 1 - k];
    }
    made[2].values[e] = tree[0];
  }
  return made;
}

TEST(CastProduct, InAnyOrderOfFp32StaysWithinItsBound) {
  Seen seen;
  for (const Case& of : {fp8, mixed, fp8_block, tf32_product, mxfp8, nvfp4, by_reciprocals}) {
    for (const char* kind : kinds) {
      Draw draw(kind, 5);
      const std::size_t n = draw.between(1, 400);
      const CastOperand a = drawn(draw, of.a, 17, n), b = drawn(draw, of.b, 19, n);
      for (const Format& output : {fp32, bf16}) {
        const CastProductCall call{a, b, of.promotion, {1, fp32, output}};
        const auto bound = cast_product_on(*find_machine("ieee"), call);
        ASSERT_TRUE(bound) << of.name << " " << kind << ": " << bound.error().detail;
        const Truth truth(call);
        for (const Tensor& c : in_fp32(call)) judge(c, call, *bound, truth, seen);
      }
    }
  }
  EXPECT_EQ(seen.outside, 0U);
  EXPECT_GT(seen.given, 0.9);
}

// Scales that are no powers of two are rounded: of one term that is all there is.
TEST(CastProduct, CountsTheRoundingOfScales) {
  Seen seen;
  for (unsigned seed = 1; seed < 200; ++seed) {
    Draw draw("plain", seed);
    const CastOperand a = drawn(draw, fp8_block.a, 2, 1), b = drawn(draw, fp8_block.b, 2, 1);
    const CastProductCall call{a, b, 128};
    const Truth truth(call);
    for (const char* card : {"ieee", "h100"}) {
      const auto bound = cast_product_on(*find_machine(card), call);
      ASSERT_TRUE(bound);
      for (const Tensor& c : in_fp32(call)) judge(c, call, *bound, truth, seen);
    }
  }
  EXPECT_EQ(seen.outside, 0U);
  EXPECT_GT(seen.given, 0.6);
}

// Codes drawn by chance differ from draw to draw; the whole bound holds for all of them.
TEST(CastProduct, OfCastsByChanceHoldsForEveryDraw) {
  Seen seen;
  for (const char* kind : kinds) {
    Draw draw(kind, 7);
    Matrix<double> x = draw.matrix(12, 96, bf16);
    const double largest = largest_magnitude(x);
    const CastOperand a = cast_operand(x, nvfp4_gradient.a, largest);
    const CastOperand b = drawn(draw, nvfp4_gradient.b, 12, 96);
    const auto bound = cast_product_on(*find_machine("ieee"), {a, b});
    ASSERT_TRUE(bound) << bound.error().detail;
    EXPECT_FALSE(bound->exact);
    for (std::uint64_t key = 2; key < 12; ++key) {
      const CastOperand other = cast_operand(x, nvfp4_gradient.a, largest, 1, key);
      const CastProductCall call{other, b};
      const auto given = cast_product_on(*find_machine("ieee"), call);
      ASSERT_TRUE(given);
      CastProduct both = *given;
      both.whole = bound->whole;
      const Truth truth(call);
      for (const Tensor& c : in_fp32(call)) judge(c, call, both, truth, seen);
    }
  }
  EXPECT_EQ(seen.outside, 0U);
  EXPECT_GT(seen.whole, 0.1);
  Draw draw("plain", 1);
  const CastOperand a = drawn(draw, nvfp4_gradient.a, 2, 32), b = drawn(draw, nvfp4.b, 2, 32);
  EXPECT_FALSE(cast_product_on(*find_machine("ieee-sequential"), {a, b}));
}

// By chance and in moments, too; of the codes, and about the mean of the whole.
TEST(CastProduct, ItsErrorsAreForetold) {
  Draw draw("plain", 2);
  for (const Case& of : {fp8, mixed, fp8_block}) {
    const CastOperand a = drawn(draw, of.a, 40, 1024), b = drawn(draw, of.b, 40, 1024);
    CastProductCall call{a, b, of.promotion, {1, fp32, fp32}, Mode::probabilistic, 1e-9};
    const Machine& h100 = *find_machine("h100");
    const Tensor c = on_unit(call, *unit_for(h100, call), Way::scales_first);
    const auto likely = cast_product_on(h100, call);
    call.mode = Mode::deterministic;
    const auto worst = cast_product_on(h100, call);
    call.mode = Mode::moments;
    const auto moments = cast_product_on(h100, call);
    ASSERT_TRUE(likely && worst && moments) << of.name;
    double squares = 0;
    for (std::size_t e = 0; e < c.size(); ++e) {
      const double error = static_cast<double>(c.values[e]) - moments->of_codes.values[e];
      ASSERT_LE(std::fabs(error), likely->given_codes.bound[0].values[e]);
      ASSERT_LE(likely->given_codes.bound[0].values[e], worst->given_codes.bound[0].values[e]);
      const double sigma = moments->given_codes.bound[0].values[e];
      const double about = error - moments->given_codes.bias[0].values[e];
      if (sigma == 0) {
        EXPECT_NEAR(about, 0, 1e-12);  // every cut is known
      } else {
        squares += std::pow(about / sigma, 2);
      }
      const double of_whole = static_cast<double>(c.values[e]) - moments->value.values[e];
      EXPECT_LE(std::fabs(of_whole - moments->whole.bias[0].values[e]), 7 * sigma + 1e-9);
    }
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(c.size())), 1, 0.1) << of.name;
  }
}

TEST(CastProduct, ItsTermsAddUpToTheBoundOfTheElementShown) {
  Draw draw("plain", 4);
  for (const Case& of : {fp8, fp8_block, mxfp8, nvfp4, nvfp4_gradient, tf32_product}) {
    const CastOperand a = drawn(draw, of.a, 8, 256), b = drawn(draw, of.b, 8, 256);
    for (const char* card : {"ieee", "ieee-sequential", "h100", "a100"}) {
      for (const Mode mode : {Mode::deterministic, Mode::probabilistic}) {
        const auto bound = cast_product_on(*find_machine(card),
                                           {a, b, of.promotion, {1, fp32, bf16}, mode, 1e-9, 13});
        if (!bound) continue;
        double sum = 0;
        bool casts = false;
        for (const Term& t : bound->whole.terms[0]) {
          sum += t.largest;
          casts = casts || t.name == "casts";
          EXPECT_GE(t.largest, 0) << t.name;
        }
        const double shown = bound->whole.bound[0].values[13];
        EXPECT_NEAR(sum, shown, 1e-12 * shown) << of.name << " on " << card;
        EXPECT_TRUE(casts);
      }
    }
  }
}

TEST(CastProduct, IsRefusedWhereTheCardHasNoSuchUnit) {
  Draw draw("plain", 6);
  const auto why = [&](const char* card, const Case& of) {
    const CastOperand a = drawn(draw, of.a, 2, 128), b = drawn(draw, of.b, 2, 128);
    const auto bound = cast_product_on(*find_machine(card), {a, b, of.promotion});
    return bound ? "" : bound.error().detail;
  };
  const auto says = [](const std::string& sentence, const char* words) {
    EXPECT_NE(sentence.find(words), std::string::npos) << sentence;
  };
  says(why("a100", fp8),
       "no matrix unit for e4m3fn; those of ada, b200, h100-libraries, h100, rtx-blackwell do");
  says(
      why("a100", mixed),
      "no matrix unit for e5m2 by e4m3fn; those of ada, b200, h100-libraries, h100, rtx-blackwell do");
  says(why("v100", tf32_product),
       "those of a100, ada, b200, h100-libraries, h100, mi300, rtx-blackwell do");
  says(why("h100", mxfp8),
       "scales e4m3fn in blocks of 32 by e8m0; those of b200, rtx-blackwell have");
  Case short_blocks = mxfp8;
  short_blocks.a.along = 16;
  says(why("b200", short_blocks), "scales e4m3fn in blocks of 16 by e8m0, nor has any other");
  says(why("b200", nvfp4), "scales e2m1 in blocks of 16 by e4m3fn, nor has any other");
  Case narrow = fp8_block;
  narrow.a.along = 16;
  says(why("h100", narrow), "takes 32 terms at once, and a chain of the recipe has 16");
  Draw huge("huge", 1);
  const CastOperand a = drawn(huge, fp8.a, 2, 64), b = drawn(huge, fp8.b, 2, 64);
  says(cast_product_on(*find_machine("h100"), {a, b}).error().detail, "a scale is outside");
}

// The codes are those that the operations of a step make, which a trace holds times their scales.
TEST(CastOperand, HoldsTheNumbersOfTheOperationsThatCast) {
  for (const char* kind : kinds) {
    Draw draw(kind, 9);
    const Matrix<double> x = draw.matrix(37, 150, bf16);
    const double largest = largest_magnitude(x);
    for (const Case& of : {fp8_block, mxfp8, nvfp4, nvfp4_gradient, by_reciprocals}) {
      for (const CastRule& rule : {of.a, of.b}) {
        Example e{"block_scales",
                  {x},
                  {{"rows", rule.across},
                   {"cols", rule.along},
                   {"rule", static_cast<double>(rule.scales)},
                   {"sliced_rows", 0}},
                  {2, fp32, rule.format}};
        e.inputs.push_back(converted<double>(evaluation_of(e)[0]));
        e.id = "quantize_blocks";
        e.attributes.erase("rule");
        if (rule.by_chance) e.attributes["key"] = 3;
        if (rule.scales == ScaleRule::nested_reciprocal) e.attributes["by_reciprocal"] = 1;
        const Tensor made = evaluation_of(e)[0];
        EXPECT_EQ(converted<float>(cast_operand(x, rule, largest, 2, 3).in_fp32()), made);
      }
    }
    for (const CastRule& rule : {fp8.a, mixed.a}) {
      Example e{"amax_scale", {x}, {{"largest", rule.format.largest()}}, {1, fp32, rule.format}};
      e.inputs.push_back(converted<double>(evaluation_of(e)[0]));
      e.id = "quantize";
      e.attributes.clear();
      EXPECT_EQ(converted<float>(cast_operand(x, rule, largest).in_fp32()), evaluation_of(e)[0]);
    }
  }
}

}  // namespace
}  // namespace plumb::cast_product_test
