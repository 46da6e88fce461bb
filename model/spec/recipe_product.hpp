// model/spec/recipe_product.hpp: the operands of a product as a recipe casts them, for the bounds
// of products (bounds/cast_product.hpp).
//
// TESTED   tests/model/recipe_product_test.cpp
#pragma once

#include "bounds/cast_operand.hpp"
#include "model/sees.hpp"
#include "model/spec/recipe.hpp"

namespace plumb::model {

struct RecipeProduct {
  CastRule a, b;
  std::size_t promotion = 0;  // terms of each chain; 0: all
  Format output = fp32;
  bool casts = false;  // are the operands shorter than what `compute` holds?
};

// fprop: activations by weights; dgrad: gradients by weights; wgrad: activations by gradients,
// whose result is FP32 as gradients of weights are.
RecipeProduct product_of(const Recipe& recipe, Product product);

// "fprop" and so on. Throws Failure on other names.
Product product_named(const std::string& name);
std::string_view name_of(Product product);

}  // namespace plumb::model
