// Are the operands of each recipe's products cast as the recipe says?
#include "model/spec/recipe_product.hpp"

#include <gtest/gtest.h>

#include "number/outcome.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::recipe_product_test {
namespace {

TEST(RecipeProduct, TakesTheOperandsOfItsProduct) {
  const Recipe current = find_recipe("fp8-current");
  const RecipeProduct fprop = product_of(current, Product::fprop);
  const RecipeProduct dgrad = product_of(current, Product::dgrad);
  const RecipeProduct wgrad = product_of(current, Product::wgrad);
  EXPECT_TRUE(fprop.casts && dgrad.casts && wgrad.casts);
  EXPECT_EQ(fprop.a.format, e4m3fn);
  EXPECT_EQ(dgrad.a.format, e5m2);
  EXPECT_EQ(dgrad.b.format, e4m3fn);
  EXPECT_EQ(wgrad.a.format, e4m3fn);
  EXPECT_EQ(wgrad.b.format, e5m2);
  EXPECT_EQ(fprop.output, bf16);
  EXPECT_EQ(wgrad.output, fp32);
  EXPECT_EQ(fprop.a.scaled, CastRule::Scaled::by_tensor);

  const RecipeProduct block = product_of(find_recipe("fp8-block"), Product::fprop);
  EXPECT_EQ(block.promotion, 128U);
  EXPECT_EQ(block.a.along, 128U);
  EXPECT_EQ(block.a.across, 1U);
  EXPECT_EQ(block.b.across, 128U);
  EXPECT_EQ(block.a.scales, ScaleRule::exact);

  const RecipeProduct gradient = product_of(find_recipe("nvfp4"), Product::dgrad);
  EXPECT_TRUE(gradient.a.by_chance);
  EXPECT_FALSE(gradient.b.by_chance);
  EXPECT_EQ(gradient.a.scales, ScaleRule::nested);
  EXPECT_FALSE(product_of(find_recipe("bf16"), Product::fprop).casts);
}

TEST(RecipeProduct, LeavesAloneWhatTheRecipeDoesNotCast) {
  const Recipe some = recipe_from_json(
      R"({"id": "some", "title": "t", "compute": "bf16", "wire": "bf16", "operands": {
      "activations": {"format": "e4m3fn", "scaling": "tensor"},
      "weights": {"format": "e4m3fn", "scaling": "tensor"},
      "gradients": {"format": "e5m2", "scaling": "tensor"}, "products": ["fprop"]}})",
      "some.json");
  EXPECT_TRUE(product_of(some, Product::fprop).casts);
  EXPECT_FALSE(product_of(some, Product::dgrad).casts);
  EXPECT_EQ(product_of(some, Product::dgrad).a.format, bf16);
}

TEST(RecipeProduct, IsNamed) {
  for (const Product p : {Product::fprop, Product::dgrad, Product::wgrad}) {
    EXPECT_EQ(product_named(std::string(name_of(p))), p);
  }
  EXPECT_THROW(product_named("backward"), Failure);
}

}  // namespace
}  // namespace plumb::recipe_product_test
