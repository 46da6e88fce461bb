// Do tokens reach the experts that their logits choose, and come back to their places?
#include "bounds/operations/routing.hpp"

#include <gtest/gtest.h>

#include "bounds/examples/example.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::routing_test {
namespace {

using Numbers = Matrix<double>::Numbers;

Matrix<double> of(std::size_t rows, std::size_t cols, Numbers values) {
  Matrix<double> m(rows, cols);
  m.values = std::move(values);
  return m;
}

TEST(TopK, FollowsTheLogitsAndThenTheNumbers) {
  const Matrix<double> x = of(3, 4, {0, 3, 1, 2, 5, 5, 7, 5, -1, -1, -1, -1});
  const auto ids = value_of({"top_k", {x}, {{"k", 2}}, {}})[0];
  EXPECT_EQ(ids.values, (Numbers{1, 3, 2, 0, 0, 1}));
  const auto n = value_of({"expert_count", {ids}, {{"experts", 4}}, {}})[0];
  EXPECT_EQ(n.values, (Numbers{2, 2, 1, 1}));
  for (const double k : {0.0, 5.0}) {
    EXPECT_THROW(value_of({"top_k", {x}, {{"k", k}}, {}}), std::invalid_argument);
  }
}

TEST(Routing, LaysCopiesByExpertThenToken) {
  const Matrix<double> ids = of(3, 2, {2, 0, 0, 2, 2, 1});
  const Routing routing = routing_of(ids, 4);
  EXPECT_EQ(routing.first, (std::vector<std::size_t>{0, 2, 3, 6, 6}));
  const auto rows = value_of({"dispatch", {of(3, 1, {7, 8, 9}), ids}, {{"experts", 4}}, {}})[0];
  EXPECT_EQ(rows.values, (Numbers{7, 8, 9, 7, 8, 9}));
  // Back again: each token as often as it was copied; weighed, each once if the weights add up.
  EXPECT_EQ(value_of({"dispatch_grad", {rows, ids}, {{"experts", 4}}, {}})[0].values,
            (Numbers{14, 16, 18}));
  const Matrix<double> p = of(3, 4, {0.25, 0, 0.75, 9, 0.5, 9, 0.5, 9, 9, 0.125, 0.875, 9});
  EXPECT_EQ(value_of({"combine", {rows, p, ids}, {}, {}})[0].values, (Numbers{7, 8, 9}));
}

TEST(Routing, RefusesWhatIsNoExpert) {
  for (const double id : {-1.0, 5.0, 0.5, std::nan(""), HUGE_VAL}) {
    EXPECT_THROW(routing_of(of(1, 1, {id}), 4), std::invalid_argument) << id;
  }
}

// A few equal rows of one expert are few among all, and all that its own sum has.
TEST(GroupedColumnSum, SeesThatTheRowsOfOneExpertRepeat) {
  const std::size_t tokens = 4096, few = 256;
  Matrix<double> ids(tokens, 1), dc(tokens, 8);
  for (std::size_t t = 0; t < tokens; ++t) {
    ids.values[t] = t < few ? 0 : 1;
    for (std::size_t j = 0; j < dc.cols; ++j) {
      const auto e = static_cast<double>(t * dc.cols + j);
      dc(t, j) = static_cast<float>(t < few ? 0.7 + 0.01 * static_cast<double>(j) : std::sin(e));
    }
  }
  const Attributes experts{{"experts", 2}};
  const auto asked = [&](Mode mode) {
    const Example e{"grouped_column_sum", {dc, ids}, experts, {2, fp32, fp32}};
    const std::vector<Matrix<double>> values = value_of(e);
    return find_operation(e.id)->tolerance({{&dc, &ids}, e.attributes, e.how, mode, 1e-3, values});
  };
  EXPECT_EQ(asked(Mode::moments).error().why, Why::conflict);
  EXPECT_EQ(asked(Mode::probabilistic)->bound[0], asked(Mode::deterministic)->bound[0]);
  for (std::size_t t = 0; t < few; ++t) {
    for (std::size_t j = 0; j < dc.cols; ++j) {
      dc(t, j) = static_cast<float>(std::cos(static_cast<double>(t * dc.cols + j)));
    }
  }
  EXPECT_TRUE(asked(Mode::moments));
  EXPECT_FALSE(asked(Mode::probabilistic)->bound[0] == asked(Mode::deterministic)->bound[0]);
}

// A bias chooses and does nothing else: what the router says of the logits stays what it is.
TEST(TopK, ABiasMovesTheChoiceAndTheMarginOnly) {
  const Matrix<double> x = of(2, 3, {0, 1, 3, 5, 4, 0}), bias = of(3, 1, {0, 4, 0});
  EXPECT_EQ(value_of({"top_k", {x, bias}, {{"k", 1}}, {}})[0].values, (Numbers{1, 1}));
  const auto without = value_of({"router", {x}, {{"k", 1}}, {}});
  const auto with = value_of({"router", {x, bias}, {{"k", 1}}, {}});
  EXPECT_EQ(with[0], without[0]);
  EXPECT_EQ(with[1].values, (Numbers{2, 3}));
  EXPECT_EQ(with[2], without[2]);
}

TEST(ExpertBias, RisesWhereAnExpertTakesFewerThanTheMean) {
  const auto moved = value_of(
      {"expert_bias", {of(4, 1, {1, 1, 1, 1}), of(4, 1, {2, 3, 4, 3})}, {{"rate", 0.25}}, {}})[0];
  EXPECT_EQ(moved.values, (Numbers{1.25, 1, 0.75, 1}));
}

// Three tokens ask for expert 2 and two have room there: the third one's copy comes last, as zeros,
// and neither gives to its token nor takes from it.
TEST(Capacity, DropsWhatComesLastInTheOrderOfTokens) {
  const Matrix<double> ids = of(3, 2, {2, 0, 0, 2, 2, 1});
  const Attributes experts{{"experts", 4}, {"most", 2}};
  const auto kept = value_of({"within_capacity", {ids}, experts, {}})[0];
  EXPECT_EQ(kept.values, (Numbers{2, 0, 0, 2, 4, 1}));
  EXPECT_EQ(value_of({"within_capacity", {kept}, experts, {}})[0], kept);
  EXPECT_EQ(value_of({"expert_count", {kept}, experts, {}})[0].values, (Numbers{2, 1, 2, 0}));
  const auto rows = value_of({"dispatch", {of(3, 1, {7, 8, 9}), kept}, experts, {}})[0];
  EXPECT_EQ(rows.values, (Numbers{7, 8, 9, 7, 8, 0}));
  const Matrix<double> any = of(6, 1, {7, 8, 9, 7, 8, 99});
  EXPECT_EQ(value_of({"dispatch_grad", {any, kept}, experts, {}})[0].values, (Numbers{14, 16, 9}));
  const Matrix<double> p(3, 4, 0.5);
  EXPECT_EQ(value_of({"combine", {any, p, kept}, {}, {}})[0].values, (Numbers{7, 8, 4.5}));
  EXPECT_EQ(value_of({"combine_grad", {of(3, 1, {2, 4, 6}), p, kept}, {}, {}})[0].values,
            (Numbers{1, 2, 3, 1, 2, 0}));
  const auto dp = value_of({"combine_weight_grad", {of(3, 1, {1, 1, 1}), any, kept}, experts, {}});
  EXPECT_EQ(dp[0].values, (Numbers{7, 0, 7, 0, 8, 0, 8, 0, 0, 9, 0, 0}));
  std::vector<Matrix<double>> inputs{any, kept};
  for (int e = 1; e <= 4; ++e) inputs.emplace_back(1, 1, e);
  for (int e = 0; e < 4; ++e) inputs.emplace_back(1, 1, 100);  // biases
  const Attributes forward{{"experts", 4}, {"transpose_b", 0}};
  EXPECT_EQ(value_of({"grouped_gemm", inputs, forward, {}})[0].values,
            (Numbers{107, 108, 118, 121, 124, 0}));
}

// Each row of an expert is what gemm makes of it, in any split; an expert without rows has none.
TEST(GroupedGemm, IsGemmOfEachExpert) {
  Draw draw("plain", 4);
  const Matrix<double> ids = of(5, 1, {2, 0, 2, 2, 0});
  const Matrix<double> a = draw.matrix(5, 24, bf16), dc = draw.matrix(5, 8, bf16);
  std::vector<Matrix<double>> inputs{a, ids};
  for (int e = 0; e < 3; ++e) inputs.push_back(draw.matrix(24, 8, bf16));
  for (int e = 0; e < 3; ++e) inputs.push_back(draw.matrix(8, 1, bf16));
  const Attributes experts{{"experts", 3}, {"transpose_b", 0}};
  const Evaluation how{4, bf16, bf16};
  const auto c = evaluation_of({"grouped_gemm", inputs, experts, how})[0];
  const auto wgrads = evaluation_of({"grouped_wgrad", {a, dc, ids}, experts, {}});
  const auto sums = evaluation_of({"grouped_column_sum", {dc, ids}, experts, {}});
  const std::size_t first[] = {0, 2, 2, 5};
  for (std::size_t e = 0; e < 3; ++e) {
    const auto own = [&](const Matrix<double>& x) {
      Matrix<double> rows(first[e + 1] - first[e], x.cols);
      std::copy(x.row(first[e]), x.row(first[e + 1]), rows.values.begin());
      return rows;
    };
    const Attributes forward{{"transpose_a", 0}, {"transpose_b", 0}};
    const Attributes backward{{"transpose_a", 1}, {"transpose_b", 0}};
    const auto mine =
        evaluation_of({"gemm", {own(a), inputs[2 + e], inputs[5 + e]}, forward, how})[0];
    EXPECT_TRUE(std::equal(mine.values.begin(), mine.values.end(), c.row(first[e]))) << e;
    EXPECT_EQ(wgrads[e], evaluation_of({"gemm", {own(a), own(dc)}, backward, {}})[0]) << e;
    EXPECT_EQ(sums[e], evaluation_of({"column_sum", {own(dc)}, {}, {}})[0]) << e;
  }
  EXPECT_EQ(wgrads[1], Tensor(24, 8));
  EXPECT_EQ(sums[1], Tensor(8, 1));
}

// Eight tokens on two ranks, 0, 1, 6, 7 and 2 to 5: what each makes of its rows of an expert is a
// part. Expert 1 has rows of the second rank alone.
TEST(GroupedGemm, AddsUpWhatRanksMakeOfTheirTokens) {
  Draw draw("plain", 5);
  const Matrix<double> ids = of(8, 1, {2, 0, 2, 0, 1, 1, 2, 0});
  const Matrix<double> a = draw.matrix(8, 24), dc = draw.matrix(8, 16);
  const std::vector<std::size_t> rows[3][2] = {{{0, 2}, {1}}, {{}, {3, 4}}, {{5, 7}, {6}}};
  const Attributes experts{{"experts", 3}}, product{{"transpose_a", 1}, {"transpose_b", 0}};
  const Evaluation how{2, fp32, fp32, {2, 8}};
  const auto wgrads = evaluation_of({"grouped_wgrad", {a, dc, ids}, experts, how});
  const auto sums = evaluation_of({"grouped_column_sum", {dc, ids}, experts, how});
  const auto in_a_row = evaluation_of({"grouped_wgrad", {a, dc, ids}, experts, {}});
  for (std::size_t e = 0; e < 3; ++e) {
    Tensor wgrad(24, 16), sum(16, 1);
    for (const std::vector<std::size_t>& part : rows[e]) {
      Matrix<double> own_a(part.size(), 24), own_dc(part.size(), 16);
      for (std::size_t i = 0; i < part.size(); ++i) {
        std::copy_n(a.row(part[i]), 24, own_a.row(i));
        std::copy_n(dc.row(part[i]), 16, own_dc.row(i));
      }
      const auto add = [](Tensor& to, const Tensor& x) {
        for (std::size_t i = 0; i < to.size(); ++i) to.values[i] += x.values[i];
      };
      add(wgrad, evaluation_of({"gemm", {own_a, own_dc}, product, {}})[0]);
      add(sum, evaluation_of({"column_sum", {own_dc}, {}, {}})[0]);
    }
    EXPECT_EQ(wgrads[e], wgrad) << e;
    EXPECT_EQ(sums[e], sum) << e;
    EXPECT_EQ(wgrads[e] == in_a_row[e], e == 1) << e;
  }
}

// Experts of equal shares and probabilities: coefficient times one; all in one: times E.
TEST(BalanceLoss, IsSmallWhereExpertsShare) {
  const double balance = 4 / (1.0 * 8 * 8);  // E / (k T^2) of four experts, top 1, eight tokens
  const Matrix<double> even(8, 4, 0.25), equal(4, 1, 2);
  const auto loss = [&](const Matrix<double>& p, const Matrix<double>& n) {
    return value_of({"balance_loss", {p, n}, {{"balance", balance}}, {}})[0].values[0];
  };
  EXPECT_EQ(loss(even, equal), 1);
  Matrix<double> one(8, 4);
  for (std::size_t t = 0; t < 8; ++t) one(t, 2) = 1;
  EXPECT_EQ(loss(one, of(4, 1, {0, 0, 8, 0})), 4);
  EXPECT_EQ(value_of({"z_loss", {of(2, 1, {3, 4})}, {{"z", 0.5}}, {}})[0].values[0], 12.5);
}

}  // namespace
}  // namespace plumb::routing_test
