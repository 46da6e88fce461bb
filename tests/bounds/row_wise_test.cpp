// Have some rows of a call the bits that they have in the whole, for every operation that is cut?
#include "bounds/row_wise.hpp"

#include <gtest/gtest.h>

#include <set>

#include "bounds/examples/example.hpp"
#include "tests/support/effort.hpp"

namespace plumb::row_wise_test {
namespace {

Matrix<double> cut(const Matrix<double>& x, Cut how, std::size_t first, std::size_t n) {
  if (how == Cut::none) return x;
  Matrix<double> y(how == Cut::rows ? n : x.rows, how == Cut::rows ? x.cols : n);
  for (std::size_t i = 0; i < y.rows; ++i) {
    for (std::size_t j = 0; j < y.cols; ++j) {
      y(i, j) = how == Cut::rows ? x(first + i, j) : x(i, first + j);
    }
  }
  return y;
}

// The operations that were cut in random calls.
std::set<std::string> cut_operations() {
  std::set<std::string> taken;
  for (const Operation* operation : all_operations()) {
    for (int n = 0; n < effort(20); ++n) {
      Draw draw("plain", static_cast<unsigned>(n + 1));
      Example e = example_of(operation->id, draw);
      e.how.parts = 1;
      e.how.tokens = {};
      const auto cuts = row_wise(*operation, e.inputs.size(), e.attributes);
      if (!cuts) continue;
      const auto whole = evaluation_of(e);
      const std::size_t rows = whole[0].rows, first = rows / 3,
                        some = std::min<std::size_t>(rows - first, 1 + rows / 2);
      Example piece = e;
      for (std::size_t i = 0; i < e.inputs.size(); ++i) {
        piece.inputs[i] = cut(e.inputs[i], (*cuts)[i], first, some);
      }
      const auto part = evaluation_of(piece);
      EXPECT_EQ(part.size(), whole.size());
      for (std::size_t o = 0; o < whole.size(); ++o) {
        const auto wanted = cut(converted<double>(whole[o]), Cut::rows, first, some);
        EXPECT_EQ(converted<double>(part[o]), wanted) << operation->id << " output " << o;
      }
      taken.insert(std::string(operation->id));
    }
  }
  return taken;
}

TEST(RowWise, CallsThatAreCutHaveTheBitsOfTheWhole) {
  const std::set<std::string> taken = cut_operations();
  for (const char* known : {"softmax", "layernorm", "rmsnorm", "gemm", "cast", "quantize", "gelu",
                            "swiglu_grad", "add", "log_sum_exp", "softmax_grad"}) {
    EXPECT_TRUE(taken.contains(known)) << known;
  }
  for (const char* never :
       {"attention", "column_sum", "expert_bias", "embedding", "all_reduce", "rope", "dropout",
        "cross_entropy", "within_capacity", "amax_history", "layernorm_wgrad"}) {
    EXPECT_FALSE(taken.contains(never)) << never;
  }
}

TEST(RowWise, ATransposedInputOfAProductIsCutAlongItsColumns) {
  const Operation& gemm = *find_operation("gemm");
  const auto cuts = [&](double a, double b) {
    return *row_wise(gemm, 2, {{"transpose_a", a}, {"transpose_b", b}});
  };
  EXPECT_EQ(cuts(0, 0), (std::vector{Cut::rows, Cut::none}));
  EXPECT_EQ(cuts(1, 0), (std::vector{Cut::columns, Cut::none}));
  EXPECT_EQ(cuts(1, 1), (std::vector{Cut::columns, Cut::none}));
  EXPECT_THROW((void)row_wise(gemm, 1, {{"transpose_a", 0}, {"transpose_b", 0}}),
               std::invalid_argument);
}

TEST(RowWise, ACastByChanceIsNotCut) {
  EXPECT_TRUE(row_wise(*find_operation("cast"), 1, {}));
  EXPECT_FALSE(row_wise(*find_operation("cast"), 1, {{"key", 3}}));
}

}  // namespace
}  // namespace plumb::row_wise_test
