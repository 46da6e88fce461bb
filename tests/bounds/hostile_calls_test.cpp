// Does a call of a damaged or hostile trace ever reach memory that is not its own? Examples of
// every operation with attributes, numbers, shapes and parts that they should not have: a call is
// refused by its schema, or by its evaluation, or it is made and its outputs are as its schema
// says. (What is read beyond an end, only the sanitizers see: preset checked.)
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "bounds/check_call.hpp"
#include "bounds/examples/example.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::hostile_calls_test {
namespace {

class HostileCalls : public testing::TestWithParam<const Operation*> {
 protected:
  // One attribute, number, shape or sharing of the sum becomes another one.
  void damage(Example& e, Draw& draw) {
    constexpr std::array counts{0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 33.0, 100.0};
    const auto some = [&](const auto& list) { return list[draw.between(0, list.size() - 1)]; };
    const std::size_t what = draw.between(0, 7);
    if (what <= 1 && !e.attributes.empty()) {
      auto attribute = e.attributes.begin();
      std::advance(attribute, draw.between(0, e.attributes.size() - 1));
      attribute->second = some(counts);
    } else if (what <= 5 && !e.inputs.empty()) {
      Matrix<double>& x = e.inputs[draw.between(0, e.inputs.size() - 1)];
      if (what == 5) return reshape(x, draw);
      constexpr double infinite = std::numeric_limits<double>::infinity();
      constexpr std::array numbers{-1.0,  0.5,      7.0,
                                   49.0,  1e9,      1e30,
                                   -1e30, infinite, std::numeric_limits<double>::quiet_NaN()};
      if (x.size() > 0) x.values[draw.between(0, x.size() - 1)] = some(numbers);
    } else if (what == 6) {
      e.how.parts = static_cast<int>(some(counts)) + 1;
    } else {
      e.how.tokens.ranks = static_cast<int>(draw.between(1, 3));
      e.how.tokens.sequence = 2 * e.how.tokens.ranks * static_cast<int>(draw.between(1, 2));
      e.how.tokens.groups = static_cast<int>(draw.between(1, 9));
      e.how.tokens.ring = draw.coin();
    }
  }

  static void reshape(Matrix<double>& x, Draw& draw) {
    const std::size_t rows = draw.between(0, x.rows + 1), cols = draw.between(0, x.cols + 1);
    Matrix<double> y(rows, cols);
    for (std::size_t i = 0; i < std::min(rows, x.rows); ++i) {
      for (std::size_t j = 0; j < std::min(cols, x.cols); ++j) y(i, j) = x(i, j);
    }
    x = std::move(y);
  }

  enum class End { by_schema, by_evaluation, made };
  static End end_of(const Example& e) {
    std::vector<Shape> shapes;
    for (const Matrix<double>& input : e.inputs) shapes.push_back({input.rows, input.cols});
    const auto forms = check_call(e.operation(), shapes, e.attributes, e.how);
    if (!forms) return End::by_schema;
    try {
      const auto outputs = evaluation_of(e);
      EXPECT_EQ(outputs.size(), forms->size());
      for (std::size_t i = 0; i < std::min(outputs.size(), forms->size()); ++i) {
        EXPECT_EQ((*forms)[i].rows.value_or(outputs[i].rows), outputs[i].rows);
        EXPECT_EQ((*forms)[i].cols.value_or(outputs[i].cols), outputs[i].cols);
      }
      for (const Mode mode : {Mode::deterministic, Mode::probabilistic, Mode::moments}) {
        (void)tolerance_of(e, mode);  // a bound or a refusal
      }
    } catch (const std::invalid_argument&) {
      return End::by_evaluation;
    }
    return End::made;
  }
};

TEST_P(HostileCalls, AreRefusedOrMadeAsTheSchemaSays) {
  int made = 0;
  for (int seed = 1; seed <= effort(400); ++seed) {
    Draw draw("plain", static_cast<unsigned>(seed));
    Example e = example_of(*GetParam(), draw);
    for (std::size_t n = draw.between(1, 3); n > 0; --n) damage(e, draw);
    SCOPED_TRACE(seed);
    made += end_of(e) == End::made ? 1 : 0;
  }
  EXPECT_GT(made, 0) << "nothing was evaluated";
}

INSTANTIATE_TEST_SUITE_P(Bounds, HostileCalls,
                         testing::ValuesIn(all_operations().begin(), all_operations().end()),
                         [](const auto& p) { return std::string(p.param->id); });

}  // namespace
}  // namespace plumb::hostile_calls_test
