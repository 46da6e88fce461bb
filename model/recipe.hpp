// model/recipe.hpp: which number lives in which format. Recipes are data: model/recipes/*.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bounds/number/format.hpp"

namespace plumb {

struct Recipe {
  std::string id;
  std::string title;
  Format compute = fp32;  // activations, their gradients, and the parameters that products see
  Format wire = fp32;     // in which parts of an activation travel between ranks
  // What linear layers and the head multiply is cast further, each tensor scaled by a power of two
  // so that its largest magnitude just fits (current scaling): activations and weights to one
  // format, gradients to another. Attention's products stay in `compute`.
  std::optional<Format> operands, grad_operands;  // both or none
  // Everything else is FP32: accumulation, weight gradients and their reduction, masters, Adam.
};

// Shipped recipes: fp32, bf16, bf16-wire32, fp8. Throws Failure on an unknown id, listing the
// known.
Recipe find_recipe(const std::string& id);
std::vector<Recipe> all_recipes();
// Throws Failure on anything but a recipe file's fields, one sentence each.
Recipe recipe_from_json(const std::string& text, const std::string& where);

}  // namespace plumb
