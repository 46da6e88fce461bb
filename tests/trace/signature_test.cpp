// Is each usual mistake named by what it leaves, and is nothing named that is no mistake?
#include "trace/signature.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "bounds/examples/draw.hpp"
#include "bounds/examples/example.hpp"
#include "number/rounding.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::signature_test {
namespace {

// A node of a run, with what it should hold.
struct Held {
  explicit Held(Example example)
      : e(std::move(example)),
        node{e.id, {}, {id}, e.attributes, e.how},
        truth(value_of(e)[0]),
        bound(tolerance_of(e)->bound[0]),
        healthy(evaluation_of(e)[0]) {}

  std::string name_of(const Tensor& got) const {
    std::vector<const Matrix<double>*> inputs;
    for (const Matrix<double>& x : e.inputs) inputs.push_back(&x);
    return looks_like({node, id, 0, inputs, others, got, truth, bound});
  }
  template <class Change>
  std::string name_after(const Change& change) const {
    Tensor got = healthy;
    for (std::size_t i = 0; i < got.rows; ++i) {
      for (std::size_t j = 0; j < got.cols; ++j) change(got(i, j), i, j);
    }
    return name_of(got);
  }

  const std::string id = "m0/x/out";
  Example e;
  Node node;
  Matrix<double> truth, bound;
  Tensor healthy;
  Values others;
};

Example product(int parts, const char* kind = "plain", unsigned seed = 1) {
  Draw draw(kind, seed);
  return {"gemm",
          {draw.matrix(16, 64, bf16), draw.matrix(64, 24, bf16)},
          {{"transpose_a", 0}, {"transpose_b", 0}},
          {parts, bf16, bf16}};
}

// The product with rows [first, last) of what is summed only.
Tensor of_terms(Example e, std::size_t first, std::size_t last, int parts) {
  for (std::size_t i = 0; i < e.inputs[0].rows; ++i) {
    for (std::size_t k = 0; k < e.inputs[0].cols; ++k) {
      if (k < first || k >= last) e.inputs[0](i, k) = 0;
    }
  }
  e.how.parts = parts;
  return evaluation_of(e)[0];
}

TEST(Signature, NamesPartsOfASum) {
  const Held held(product(4));
  EXPECT_EQ(held.name_of(of_terms(held.e, 0, 48, 4)), "lacks part 4 of 4 of its sum");
  EXPECT_EQ(held.name_of(of_terms(held.e, 16, 32, 4)), "is part 2 of 4 of its sum alone");
  Tensor twice = held.healthy;
  const Tensor more = of_terms(held.e, 32, 48, 1);
  for (std::size_t e = 0; e < twice.size(); ++e) {
    twice.values[e] = round_to(twice.values[e] + more.values[e], bf16);
  }
  EXPECT_EQ(held.name_of(twice), "counts part 3 of 4 of its sum twice");
  // Nobody promised parts, so nobody knows one.
  EXPECT_EQ(Held(product(1)).name_of(of_terms(held.e, 0, 48, 1)), "");
}

TEST(Signature, NamesATensorThatWasNotAddedAndABiasOfEachPart) {
  Draw draw("plain", 5);
  const Matrix<double> x = draw.matrix(8, 8), y = draw.matrix(8, 8);
  Held held({"add", {x, y}, {}, {1, fp32, fp32}});
  held.node.inputs = {"x", "y"};
  EXPECT_EQ(held.name_of(converted<float>(y)), "lacks x");
  Example biased = product(2);
  biased.inputs.push_back(draw.matrix(24, 1));
  const Held sum(biased);
  const auto twice = [&](float& value, std::size_t, std::size_t j) {
    value = round_to(value + static_cast<float>(biased.inputs[2].values[j]), bf16);
  };
  EXPECT_EQ(sum.name_after(twice), "counts its bias 2 times");
}

TEST(Signature, NamesTokensThatARankLeftOut) {
  Draw draw("plain", 2);
  Example e{"column_sum", {draw.matrix(32, 12)}, {}, {2, fp32, fp32, {2, 16}}};
  const Held held(e);
  // Of each sequence of 16 the second rank has the middle.
  Example first = e;
  for (std::size_t t = 0; t < 32; ++t) {
    if (t % 16 < 4 || t % 16 >= 12) continue;
    for (std::size_t j = 0; j < 12; ++j) first.inputs[0](t, j) = 0;
  }
  EXPECT_EQ(held.name_of(evaluation_of(first)[0]), "is part 1 of 2 of its sum alone");
}

TEST(Signature, NamesFactorsInAllOfATensorAndInABlock) {
  const Held held(product(1));
  EXPECT_EQ(held.name_after([](float& x, auto, auto) { x *= 2; }), "2 times what it should be");
  EXPECT_EQ(held.name_after([](float& x, auto, auto) { x /= 64; }), "1/64 of what it should be");
  EXPECT_EQ(held.name_after([](float& x, auto, auto) { x = -x; }),
            "the negative of what it should be");
  const auto block = [](float& x, std::size_t i, std::size_t j) {
    if (i >= 8 && j >= 12) x *= 4;
  };
  EXPECT_EQ(held.name_after(block), "4 times what it should be in rows 8 to 15, columns 12 to 23");
  EXPECT_EQ(held.name_after([](float& x, auto, auto) { x *= 1.37F; }), "");
}

TEST(Signature, NamesZerosAndShorterFormats) {
  const Held held(product(1));
  const auto lost = [](float& x, std::size_t i, std::size_t) { x = i < 4 ? 0 : x; };
  EXPECT_EQ(held.name_after(lost), "0 wherever it is wrong in rows 0 to 3");
  Example wide = product(1);
  wide.how.output = fp32;
  const auto rounded = [](float& x, auto, auto) { x = round_to(x, bf16); };
  EXPECT_EQ(Held(wide).name_after(rounded), "rounded to bf16, where fp32 was promised");
  const auto worse = [](float& x, auto, auto) { x = round_to(1.02F * x, bf16); };
  EXPECT_EQ(Held(wide).name_after(worse), "");
}

TEST(Signature, NamesWhatStandsInAnotherPlace) {
  const Held held(product(1));
  const Tensor& is = held.healthy;
  const auto swapped = [&](float& x, std::size_t i, std::size_t j) { x = is((i + 8) % 16, j); };
  EXPECT_EQ(held.name_after(swapped), "made of the 2 blocks of its rows in the order 2 1");
  const auto first = [&](float& x, std::size_t i, std::size_t j) { x = is(i, j % 8); };
  EXPECT_EQ(held.name_after(first), "made of the 3 blocks of its columns in the order 1 1 1");
  const auto zigzag = [&](float& x, std::size_t i, std::size_t j) {
    constexpr std::array<std::size_t, 4> of{0, 3, 1, 2};
    x = is(of[i / 4] * 4 + i % 4, j);
  };
  EXPECT_EQ(held.name_after(zigzag), "made of the 4 blocks of its rows in the order 1 4 2 3");
  Example square = product(1);
  square.inputs[1] = Draw("plain", 9).matrix(64, 16, bf16);
  const Held other(square);
  const auto turned = [&](float& x, std::size_t i, std::size_t j) { x = other.healthy(j, i); };
  EXPECT_EQ(other.name_after(turned), "its own transpose");
}

TEST(Signature, NamesAnotherMicroBatchAndANormaliserOverRanks) {
  Held held(product(1));
  const Tensor of_another = Held(product(1, "plain", 7)).healthy;
  held.others["m3/x/out"] = std::make_shared<const Tensor>(of_another);
  EXPECT_EQ(held.name_of(of_another), "the same bits as m3/x/out");
  Example wide = product(1);
  wide.how.output = fp32;
  const auto more = [](float& x, auto, auto) { x = static_cast<float>(x - std::log(4.0)); };
  EXPECT_EQ(Held(wide).name_after(more), "ln 4 too small");
}

TEST(Signature, NamesNothingInAHealthyTensor) {
  for (const char* kind : input_kinds) {
    for (int seed = 1; seed <= effort(40); ++seed) {
      for (const int parts : {1, 2, 4}) {
        const Held held(product(parts, kind, static_cast<unsigned>(seed)));
        ASSERT_EQ(held.name_of(held.healthy), "") << kind << " " << seed;
      }
    }
  }
}

// A few wrong elements, a wrong row, noise above the tolerance: no usual mistake.
TEST(Signature, NamesNoMistakeThatIsNotOneOfThese) {
  for (int seed = 1; seed <= effort(100); ++seed) {
    const Held held(product(2, "plain", static_cast<unsigned>(seed)));
    Draw draw("plain", 900 + static_cast<unsigned>(seed));
    const Matrix<double> noise = draw.matrix(16, 24);
    const auto noisy = [&](float& x, std::size_t i, std::size_t j) {
      x = round_to(static_cast<float>(x * (1 + 0.1 * noise(i, j))), bf16);
    };
    EXPECT_EQ(held.name_after(noisy), "") << seed;
    const auto row = [&](float& x, std::size_t i, std::size_t j) {
      if (i == 3) x = static_cast<float>(noise(i, j));
    };
    EXPECT_EQ(held.name_after(row), "") << seed;
  }
}

}  // namespace
}  // namespace plumb::signature_test
