// model/spec/recipe.hpp: the format of each number. Recipes are data: model/recipes/*.json, or a
// file of one's own. model/README.md says what each field means.
//
// TESTED   tests/model/recipe_test.cpp
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/sees.hpp"
#include "model/spec/config.hpp"
#include "model/spec/layout.hpp"
#include "number/blocks.hpp"

namespace plumb::model {

// How a tensor is scaled before its cast:
//   none      not at all
//   tensor    by a power of two with which the largest magnitude just fits (current scaling)
//   delayed   by one with which the largest of the last steps just fits; larger values saturate
//   block     each block is divided by a scale of its own
enum class Scaling { none, tensor, delayed, block };
// The axis of a tensor that a product sums over.
enum class Contracted { columns, rows };
// fprop: a layer's input with its weight; dgrad: the gradient of its output with the weight; wgrad:
// its input with that gradient.
enum class Product { fprop, dgrad, wgrad };
// Weights are (in, out); the head's is (out, in), so that it may be that of the embedding.
Contracted axis_of_weight(const std::string& module, Product product);

// How one class of tensors is cast before a product takes it.
struct OperandCast {
  Format format;
  Scaling scaling = Scaling::none;
  // Size of a block along the axis that the product sums over, and across it.
  int along = 0, across = 0;
  ScaleRule rule = ScaleRule::ceil;
  int history = 0;          // steps that delayed scaling looks back on
  bool stochastic = false;  // rounded stochastically: model/state/rounding_key.hpp

  // Blocks that are not square lie differently for products that sum over the other axis.
  bool two_copies() const { return scaling == Scaling::block && along != across; }
  // The id of the copy that such a product takes; `id` is that of the copy over the columns.
  std::string copy_of(const std::string& id, Contracted axis) const {
    return two_copies() && axis == Contracted::rows ? id + "_t" : id;
  }
};
// Which products take the cast copy of a tensor; the others take the tensor itself.
struct Taken {
  bool by_columns, by_rows;  // those that sum over its columns, its rows
  bool any() const { return by_columns || by_rows; }
};
struct OperandCasts {
  OperandCast activations, weights, gradients;
  bool fprop = true, dgrad = true, wgrad = true;  // the products that take the cast copies
  // Terms of each chain of a product, whose sums FP32 then adds; 0: one chain of all.
  int chain = 0;
  // ZeRO-3 gathers the casts of weights, which each rank makes of its share, not the parameters.
  bool gathers_casts = false;
  bool by_layer() const { return plain_first + plain_last > 0; }
  bool keeps_histories() const;
  // So many of the first layers, and of the last, take their operands as computed. The head is none.
  int plain_first = 0, plain_last = 0;

  bool take(Product product) const {
    return product == Product::fprop ? fprop : product == Product::dgrad ? dgrad : wgrad;
  }
  Taken of_activations() const { return {fprop, wgrad}; }
  Taken of_gradients() const { return {dgrad, wgrad}; }
  Taken of_weight(const std::string& parameter) const;
  bool all_of_weights() const { return fprop && dgrad; }
};

struct Recipe {
  std::string id;
  std::string title;
  Format compute = fp32;  // activations, their gradients, and the parameters that products see
  Format stream = fp32;   // the residual stream and its gradients: `compute` or FP32
  Format wire = fp32;     // in which parts of an activation travel between ranks
  // Activations and their gradients are rounded stochastically, each rank by draws of its own; parts
  // that travel and operands of products are not.
  bool stochastic_results = false;
  // The operands of linear layers and the head, where they are not as wide as `compute`.
  // Attention's products always take `compute`.
  std::optional<OperandCasts> operands;
  // How a module or a parameter of that name (layers.0.mlp.fc1, head.weight) has its operands cast;
  // null: not at all.
  const OperandCasts* casts_of(const Config& config, const std::string& name) const;
  const OperandCasts* casts_of_layer(const Config& config, int layer) const;  // -1: no layer
  // The same for one product of it.
  const OperandCasts* casts_of(const Config& config, const std::string& name,
                               Product product) const;
  // Terms of each chain in such a product; 0: all.
  int chain_of(const Config& config, const std::string& name, Product product) const;
  // true: Adam updates FP32 masters, of which parameters are casts. false: Adam updates the
  // parameters themselves, and only its result is rounded, to nearest or stochastically.
  bool masters = true;
  bool stochastic_update = false;
  Format moments = fp32;  // of Adam
  // Gradients are those of the loss times a scale. It falls when they leave the range (that step is
  // left out) and grows after `growth_interval` good steps.
  bool loss_scaling = false;
  static constexpr double growth = 2, backoff = 0.5, growth_interval = 2000;
  // Everything else is FP32: accumulation, weight gradients and their reduction, Adam's arithmetic.

  std::string card;  // the JSON that it was read from; empty for those shipped
};

// Parameters that take part in products as casts (model/spec/config.hpp: multiplied).
std::vector<Parameter> multiplied_as_casts(const Config& config, const Recipe& recipe);

// Tensors that the recipe scales by their history.
struct DelayedOperand {
  std::string id;           // of the cast copy, without micro-batch
  const OperandCast* cast;  // of the recipe
  std::string weight;       // the parameter whose product takes it; of experts' rows the router's
};
std::vector<DelayedOperand> delayed_operands(const Config& config, const Recipe& recipe);

// Are results rounded stochastically? A single rank rounds to nearest in every recipe: it is the
// reference, and no two draws of it would agree.
bool draws_results(const Recipe& recipe, const Layout& layout);
// Returns what is wrong if it draws and ranks of the layout would have to draw alike: replicas of an
// activation over tp without sp, of key heads, of what backward computes again, of routers. Empty:
// nothing.
std::string wrong_draws(const Recipe& recipe, const Layout& layout, const Config& config);
// Throws Failure with that, or if layers are idle whose scales come from histories.
void check_recipe(const Recipe& recipe, const Layout& layout, const Config& config);

// Throws Failure on an unknown id, listing the known.
Recipe find_recipe(const std::string& id);
// All shipped recipes, in the order of their names.
std::vector<Recipe> all_recipes();
// Throws Failure on anything but a recipe's fields, one sentence each; `where` names the text.
Recipe recipe_from_json(const std::string& text, const std::string& where);
// Returns a shipped recipe by its id, or reads a file ending in .json. Throws Failure if there is
// none, or if a file takes the id of a shipped recipe.
Recipe recipe_from(const std::string& id_or_file);
// Returns every field by name and in words; the same fields in the same order for all recipes.
std::vector<std::pair<std::string, std::string>> described(const Recipe& recipe);

}  // namespace plumb::model
