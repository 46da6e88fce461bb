#include "model/spec/recipe_product.hpp"

#include <array>

#include "number/outcome.hpp"
#include "number/words.hpp"

namespace plumb::model {
namespace {

constexpr std::array<std::string_view, 3> names{"fprop", "dgrad", "wgrad"};

CastRule rule_of(const OperandCast& cast) {
  using enum CastRule::Scaled;
  CastRule rule{cast.format};
  rule.by_chance = cast.stochastic;
  if (cast.scaling == Scaling::none) return rule;
  rule.scaled = cast.scaling == Scaling::block ? by_blocks : by_tensor;
  if (rule.scaled == by_tensor) return rule;
  rule.along = static_cast<std::size_t>(cast.along);
  rule.across = static_cast<std::size_t>(cast.across);
  rule.scales = cast.rule;
  return rule;
}

}  // namespace

RecipeProduct product_of(const Recipe& recipe, Product product) {
  const Format output = product == Product::wgrad ? fp32 : recipe.compute;
  if (!recipe.operands || !recipe.operands->take(product)) {
    return {{recipe.compute}, {recipe.compute}, 0, output};
  }
  const OperandCasts& casts = *recipe.operands;
  const bool forward = product == Product::fprop, weights = product != Product::wgrad;
  const OperandCast& a = forward || !weights ? casts.activations : casts.gradients;
  const OperandCast& b = weights ? casts.weights : casts.gradients;
  return {rule_of(a), rule_of(b), static_cast<std::size_t>(casts.chain), output, true};
}

Product product_named(const std::string& name) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<Product>(i);
  }
  throw Failure(unknown("product", name, {names.begin(), names.end()}));
}

std::string_view name_of(Product product) { return names[static_cast<std::size_t>(product)]; }

}  // namespace plumb::model
