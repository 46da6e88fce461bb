// Are bounds without terms, made a slice at a time, those with terms?
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bounds/examples/example.hpp"
#include "bounds/tolerance.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::worst_case_test {
namespace {

Outcome<Tolerance> adam_bounds(const Example& e, bool terms) {
  std::vector<const Matrix<double>*> inputs;
  for (const Matrix<double>& input : e.inputs) inputs.push_back(&input);
  const auto values = value_of(e);
  ToleranceCall call{inputs, e.attributes, e.how, Mode::deterministic, 0, values};
  call.form = e.form;
  call.terms = terms;
  return e.operation().tolerance(call);
}

void expect_same(const Example& e, const std::string& where) {
  const auto with = adam_bounds(e, true), without = adam_bounds(e, false);
  ASSERT_EQ(with.has_value(), without.has_value()) << where;
  if (!with) return;
  for (std::size_t o = 0; o < with->bound.size(); ++o) {
    EXPECT_TRUE(e.inputs.size() > 4 || without->terms[o].empty()) << where;
    for (std::size_t i = 0; i < with->bound[o].size(); ++i) {
      const double bound = with->bound[o].values[i];
      EXPECT_NEAR(without->bound[o].values[i], bound, 1e-13 * bound) << where << " output " << o;
    }
  }
}

TEST(WithoutTerms, BoundsAreThoseWithTerms) {
  for (const char* kind : input_kinds) {
    for (unsigned seed = 1; seed <= 16; ++seed) {
      Draw draw(kind, 90'000 + seed);
      Example e = example_of("adam", draw);
      for (e.form = 0; e.form < e.operation().forms.size(); ++e.form) {
        expect_same(e, std::string(kind) + " " + std::to_string(seed));
      }
    }
  }
}

// The example's rows make one slice; many make several, the last of which is short.
TEST(WithoutTerms, SlicesJoin) {
  Draw draw("plain", 1);
  Example e = example_of("adam", draw);
  e.inputs.resize(4);
  for (Matrix<double>& input : e.inputs) {
    Matrix<double> more(5000, 1);
    for (std::size_t i = 0; i < more.size(); ++i) more.values[i] = input.values[i % input.size()];
    input = std::move(more);
  }
  expect_same(e, "5000");
}

}  // namespace
}  // namespace plumb::worst_case_test
