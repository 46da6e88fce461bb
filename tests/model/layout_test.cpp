// Does the grammar say yes and no where it should?
#include "model/layout.hpp"

#include <gtest/gtest.h>

#include "bounds/outcome.hpp"
#include "model/recipe.hpp"

namespace plumb {
namespace {

TEST(Layout, ReadsItsGrammar) {
  EXPECT_EQ(parse_layout("dp2,tp4,sp"), (Layout{2, 4, true}));
  EXPECT_EQ(parse_layout("tp2"), (Layout{1, 2, false}));
  EXPECT_EQ(parse_layout(name_of(Layout{2, 4, true})), (Layout{2, 4, true}));
  for (const char* bad : {"tp", "tp0", "tp-1", "tp2,tp2", "xp2", "sp2", "tp999", "2", "tp2 dp2"}) {
    EXPECT_THROW(parse_layout(bad), Failure) << bad;
  }
}

TEST(Layout, MustDivideTheModel) {
  Config c = config_of("llama");  // 8 heads, 4 KV heads
  c.micro_batches = 4;
  EXPECT_NO_THROW(check_layout({4, 4, true}, c));
  EXPECT_THROW(check_layout({1, 3, false}, c), Failure);
  EXPECT_THROW(check_layout({1, 8, false}, c), Failure);
  EXPECT_THROW(check_layout({3, 1, false}, c), Failure);
}

TEST(Recipe, IsReadOrRefusedInOneSentence) {
  EXPECT_EQ(find_recipe("bf16").wire, bf16);
  EXPECT_EQ(find_recipe("bf16-wire32").wire, fp32);
  EXPECT_FALSE(find_recipe("bf16").operands);
  EXPECT_EQ(find_recipe("fp8").operands, e4m3fn);
  EXPECT_EQ(find_recipe("fp8").grad_operands, e5m2);
  EXPECT_THROW(find_recipe("int3"), Failure);
  EXPECT_THROW(recipe_from_json("{}", "x"), Failure);
  EXPECT_THROW(recipe_from_json("[", "x"), Failure);
  EXPECT_THROW(recipe_from_json(R"({"id":"a","title":"b","compute":"int3","wire":"fp32"})", "x"),
               Failure);
  const std::string half = R"({"id":"a","title":"b","compute":"bf16","wire":"bf16")";
  EXPECT_THROW(recipe_from_json(half + R"(,"operands":"e4m3fn"})", "x"), Failure);
  EXPECT_THROW(recipe_from_json(half + R"(,"operands":"e4m3fn","grad_operands":"e9m9"})", "x"),
               Failure);
  EXPECT_THROW(
      recipe_from_json(R"({"id":"a","title":"b","compute":"fp32","wire":"fp32","more":1})", "x"),
      Failure);
}

}  // namespace
}  // namespace plumb
