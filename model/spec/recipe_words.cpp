#include "model/spec/recipe.hpp"

namespace plumb::model {
namespace {

std::string in_words(const OperandCast& cast) {
  const std::string format(cast.format.name);
  if (cast.scaling == Scaling::none) return format;
  if (cast.scaling == Scaling::block) {
    const char* scale = cast.rule == ScaleRule::ceil    ? "a power of two"
                        : cast.rule == ScaleRule::exact ? "an FP32 scale"
                        : cast.rule == ScaleRule::nested
                            ? "an E4M3 scale on an FP32 grid"
                            : "an E4M3 scale on an FP32 grid, by reciprocals";
    return format + ", " + scale + " for each " + std::to_string(cast.across) + "x" +
           std::to_string(cast.along) + (cast.stochastic ? ", rounded stochastically" : "");
  }
  if (cast.scaling == Scaling::delayed) {
    return format + ", a power of two for each tensor from its largest magnitude in the last " +
           std::to_string(cast.history) + " steps";
  }
  return format + ", a power of two for each tensor from its largest magnitude";
}

std::string products_of(const Recipe& recipe) {
  if (!recipe.operands) return "as computed";
  std::string names;
  for (const auto& [product, name] :
       {std::pair{Product::fprop, "fprop"}, {Product::dgrad, "dgrad"}, {Product::wgrad, "wgrad"}}) {
    if (recipe.operands->take(product)) names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

std::string plain_layers_of(const Recipe& recipe) {
  const int first = recipe.operands ? recipe.operands->plain_first : 0;
  const int last = recipe.operands ? recipe.operands->plain_last : 0;
  if (first + last == 0) return "none";
  return "the first " + std::to_string(first) + " and the last " + std::to_string(last);
}

std::string gathered_of(const Recipe& recipe) {
  return recipe.operands && recipe.operands->gathers_casts ? "casts" : "parameters";
}

std::string sums_of(const Recipe& recipe) {
  if (!recipe.operands || recipe.operands->chain == 0) return "fp32, one chain";
  return "fp32, a chain for each " + std::to_string(recipe.operands->chain) + " terms";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> described(const Recipe& recipe) {
  const auto seen = [&](const OperandCast OperandCasts::*which) {
    return recipe.operands ? in_words(*recipe.operands.*which) : "as computed";
  };
  return {{"title", recipe.title},
          {"compute", std::string(recipe.compute.name)},
          {"residual stream", std::string(recipe.stream.name)},
          {"wire", std::string(recipe.wire.name)},
          {"rounding of results",
           recipe.stochastic_results ? "stochastic, from the second rank on" : "nearest"},
          {"activations in products", seen(&OperandCasts::activations)},
          {"weights in products", seen(&OperandCasts::weights)},
          {"gradients in products", seen(&OperandCasts::gradients)},
          {"products that take these", products_of(recipe)},
          {"layers whose products take none", plain_layers_of(recipe)},
          {"sums of these products", sums_of(recipe)},
          {"what ZeRO-3 gathers of weights", gathered_of(recipe)},
          {"masters", recipe.masters ? "fp32" : "none"},
          {"rounding of the update", recipe.stochastic_update ? "stochastic" : "nearest"},
          {"Adam's moments", std::string(recipe.moments.name)},
          {"loss scale", recipe.loss_scaling ? "dynamic, bad steps are left out" : "none"}};
}

}  // namespace plumb::model
