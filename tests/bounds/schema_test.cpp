// Does every call of the examples fit its operation's schema, is what it makes as the schema says,
// and is each call refused that does not fit?
#include <gtest/gtest.h>

#include "bounds/check_call.hpp"
#include "bounds/examples/shaped.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::schema_test {
namespace {

std::vector<Shape> shapes_of(const Example& e) {
  std::vector<Shape> shapes;
  for (const Matrix<double>& input : e.inputs) shapes.push_back({input.rows, input.cols});
  return shapes;
}

Outcome<std::vector<OutputForm>> checked(const Example& e) {
  return check_call(*find_operation(e.id), shapes_of(e), e.attributes, e.how);
}

void expect_fits(const Example& e, const std::string& where) {
  const auto forms = checked(e);
  ASSERT_TRUE(forms) << where << ": " << forms.error().detail;
  const auto outputs = value_of(e);
  ASSERT_EQ(forms->size(), outputs.size()) << where;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const OutputForm& form = (*forms)[i];
    EXPECT_EQ(form.rows.value_or(outputs[i].rows), outputs[i].rows) << where << form.name;
    EXPECT_EQ(form.cols.value_or(outputs[i].cols), outputs[i].cols) << where << form.name;
  }
}

Example random_call(std::string_view id, unsigned seed) {
  Draw draw("plain", seed);
  return example_of(id, draw);
}

class Schemas : public testing::TestWithParam<std::string> {
 protected:
  const Operation& operation_ = *find_operation(GetParam());
};

TEST_P(Schemas, FitEveryExample) {
  for (int seed = 1; seed <= effort(60); ++seed) {
    expect_fits(random_call(GetParam(), static_cast<unsigned>(seed)), GetParam());
  }
  expect_fits(shaped_example(GetParam(), usual_shape(GetParam()), bf16), GetParam() + " by shape");
}

TEST_P(Schemas, RefuseAttributesThatAreMissingOrUnknownOrOfAnotherKind) {
  const Example e = random_call(GetParam(), 1);
  for (const Attribute& a : operation_.schema.attributes) {
    Example damaged = e;
    damaged.attributes.erase(std::string(a.name));
    EXPECT_TRUE(!a.required || !checked(damaged)) << a.name;
    damaged.attributes[std::string(a.name)] = std::nan("");
    EXPECT_FALSE(checked(damaged)) << a.name;
    if (a.kind == Attribute::Kind::real) continue;
    damaged.attributes[std::string(a.name)] = 0.5;
    EXPECT_FALSE(checked(damaged)) << a.name;
    damaged.attributes[std::string(a.name)] = -1;
    EXPECT_FALSE(checked(damaged)) << a.name;
  }
  Example more = e;
  more.attributes["colour"] = 1;
  ASSERT_FALSE(checked(more));
  EXPECT_EQ(checked(more).error().detail, GetParam() + ": it has no attribute 'colour'");
}

TEST_P(Schemas, RefuseCallsWithoutInputs) {
  Example e = random_call(GetParam(), 1);
  e.inputs.clear();
  EXPECT_FALSE(checked(e));
}

// An operation whose inputs do not go on for ever takes no more than eight, or eight an expert.
TEST_P(Schemas, RefuseInputsThatNobodyReads) {
  const auto repeats = [](const Operand& x) { return x.presence == Presence::repeated; };
  if (std::ranges::any_of(operation_.schema.inputs, repeats)) return;
  Example e = random_call(GetParam(), 1);
  while (e.inputs.size() < 60) e.inputs.push_back(e.inputs.back());
  EXPECT_FALSE(checked(e));
}

std::vector<std::string> all_ids() {
  std::vector<std::string> ids;
  for (const Operation* operation : all_operations()) ids.emplace_back(operation->id);
  return ids;
}
INSTANTIATE_TEST_SUITE_P(Bounds, Schemas, testing::ValuesIn(all_ids()),
                         [](const auto& parameter) { return parameter.param; });

std::string refusal(std::string_view id, const std::vector<Shape>& shapes,
                    const Attributes& attributes, const Evaluation& how = {}) {
  const auto outcome = check_call(*find_operation(id), shapes, attributes, how);
  return outcome ? "" : outcome.error().detail;
}

TEST(Schema, SaysWhichInputHasWhichShapeAndWhatItShouldHave) {
  const Attributes plain{{"transpose_a", 0}, {"transpose_b", 0}};
  const Attributes b_is_transposed{{"transpose_a", 0}, {"transpose_b", 1}};
  EXPECT_EQ(refusal("gemm", {{2, 3}, {3, 5}}, plain), "");
  EXPECT_EQ(refusal("gemm", {{2, 3}, {5, 3}}, b_is_transposed), "");
  EXPECT_EQ(refusal("gemm", {{2, 3}, {5, 3}}, plain),
            "gemm: input 'B' is 5 x 3, and must be (K = 3, N)");
  EXPECT_EQ(refusal("gemm", {{2, 3}, {3, 5}, {4, 1}}, plain),
            "gemm: input 'bias' is 4 x 1, and must be (N = 5, 1 = 1)");
}

TEST(Schema, CountsInputsAsTheAttributesSay) {
  const Attributes two{{"experts", 2}, {"transpose_b", 0}};
  const Shape rows{6, 3}, ids{3, 2}, weight{3, 4}, bias{4, 1};
  EXPECT_EQ(refusal("grouped_gemm", {rows, ids, weight, weight}, two), "");
  EXPECT_EQ(refusal("grouped_gemm", {rows, ids, weight, weight, bias, bias}, two), "");
  EXPECT_EQ(refusal("grouped_gemm", {rows, ids, weight, weight, bias}, two),
            "grouped_gemm: it has 5 inputs, and takes A, ids, B ..., [bias ...]");
  EXPECT_NE(refusal("grouped_gemm", {rows, {4, 2}, weight, weight}, two), "");
}

TEST(Schema, KnowsTheSizesThatAttributesAndProductsMake) {
  const Attributes heads{{"heads", 4}, {"kv_heads", 2}, {"head_dim", 6}, {"sequence", 5}};
  EXPECT_EQ(refusal("attention", {{10, 48}}, heads), "");
  EXPECT_NE(refusal("attention", {{10, 47}}, heads), "");
  EXPECT_NE(refusal("attention", {{11, 48}}, heads), "");  // no whole sequences
  const Attributes packing{{"heads", 2}, {"kv_heads", 2}, {"head_dim", 4}};
  EXPECT_EQ(refusal("pack_heads", {{3, 8}, {3, 16}}, packing), "");
  EXPECT_EQ(refusal("pack_heads", {{3, 8}, {3, 14}, {3, 1}}, packing), "");
  EXPECT_NE(refusal("pack_heads", {{3, 8}, {3, 14}}, packing), "");
}

TEST(Schema, RefusesDealsOfTermsThatAreNone) {
  const Evaluation dealt{2, fp32, fp32, {2, 8}};
  EXPECT_EQ(refusal("column_sum", {{16, 3}}, {}, dealt), "");
  EXPECT_NE(refusal("column_sum", {{12, 3}}, {}, dealt), "");
  EXPECT_NE(refusal("gelu", {{16, 3}}, {}, dealt), "");
}

}  // namespace
}  // namespace plumb::schema_test
