#include "model/spec/recipe.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "model/spec/ownership.hpp"
#include "model/spec/recipe_card.hpp"
#include "model/spec/recipe_json.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"
#include "trace/store/read_file.hpp"

namespace plumb::model {

std::span<const std::pair<std::string_view, std::string_view>> recipe_cards();  // embedded

namespace {

constexpr const char* an_operand = R"({"format": "e4m3fn", "scaling": "tensor"})";
constexpr const char* a_recipe =
    R"({"id": "mine", "title": "what it is", "compute": "bf16", "wire": "bf16"})";

// The formats that a scale is written in, and their rules for a block's largest magnitude.
constexpr std::pair<std::string_view, ScaleRule> scale_formats[] = {
    {"e8m0", ScaleRule::ceil},
    {"fp32", ScaleRule::exact},
    {"e4m3fn", ScaleRule::nested_reciprocal}};

OperandCast blocks_of(const RecipeCard& of, const std::string& when) {
  of.only({"format", "scaling", "block", "scale", "nested", "rounding"}, when);
  OperandCast cast{of.format("format", {"e4m3fn", "e5m2", "e3m2", "e2m3", "e2m1"}, when),
                   Scaling::block};
  std::tie(cast.across, cast.along) = of.two_sizes("block");
  const std::string scale = of.choice("scale", {"e8m0", "fp32", "e4m3fn"});
  for (const auto& [format, rule] : scale_formats) {
    if (format == scale) cast.rule = rule;
  }
  if (of.has("nested")) {
    if (scale != "e4m3fn") {
      of.refuse("nested", "choose scale = 'e4m3fn', which a scale of the tensor belongs to");
    }
    const bool quotient = of.choice("nested", {"reciprocal", "quotient"}) == "quotient";
    if (quotient) cast.rule = ScaleRule::nested;
  }
  if (of.has("rounding")) {
    cast.stochastic = of.choice("rounding", {"nearest", "stochastic"}) == "stochastic";
  }
  return cast;
}

OperandCast cast_of(const RecipeCard& all, const char* field) {
  const RecipeCard of = all.inner(
      field, {"format", "scaling", "block", "scale", "nested", "rounding", "history"}, an_operand);
  const std::string scaling = of.choice("scaling", {"none", "tensor", "delayed", "block"});
  const std::string when = " with scaling = '" + scaling + "'";
  if (scaling == "block") return blocks_of(of, when);
  if (scaling == "delayed") {
    of.only({"format", "scaling", "history"}, when);
    OperandCast cast{of.format("format", {"e4m3fn", "e5m2"}, when), Scaling::delayed};
    cast.history = of.size("history", 4096);
    return cast;
  }
  of.only({"format", "scaling"}, when);
  if (scaling == "none") return {of.format("format", {"tf32"}, when)};
  return {of.format("format", {"e4m3fn", "e5m2"}, when), Scaling::tensor};
}

OperandCasts casts_of(const RecipeCard& card) {
  const RecipeCard all = card.inner(
      "operands",
      {"activations", "weights", "gradients", "products", "promotion", "gathered", "plain_layers"},
      R"({"activations": X, "weights": X, "gradients": X}, where X is like )" +
          std::string(an_operand));
  OperandCasts casts{cast_of(all, "activations"), cast_of(all, "weights"),
                     cast_of(all, "gradients")};
  if (all.has("gathered")) {
    casts.gathers_casts = all.choice("gathered", {"parameters", "casts"}) == "casts";
  }
  const bool of_shares =
      casts.weights.scaling == Scaling::tensor || casts.weights.scaling == Scaling::delayed;
  if (casts.gathers_casts && !of_shares) {
    all.refuse("gathered",
               "choose scaling = 'tensor' or 'delayed' of the weights, or 'parameters'");
  }
  if (all.has("plain_layers")) {
    std::tie(casts.plain_first, casts.plain_last) = all.two_counts("plain_layers");
  }
  if (all.has("promotion")) casts.chain = all.size("promotion", 1 << 20);
  if (!all.has("products")) return casts;
  const RecipeCard::Names taken = all.choices("products", {"fprop", "dgrad", "wgrad"});
  const auto takes = [&](std::string_view name) { return std::ranges::count(taken, name) == 1; };
  casts.fprop = takes("fprop");
  casts.dgrad = takes("dgrad");
  casts.wgrad = takes("wgrad");
  return casts;
}

std::string contents(const std::string& file) {
  const Outcome<std::string> text = read_file(file, 1 << 20);
  if (text) return *text;
  throw Failure("cannot take " + file + " for a recipe: it " + text.error().detail +
                "; name a JSON file, such as model/recipes/bf16.json");
}

// The id by which traces, tables and command lines name a run.
std::string id_of(const RecipeCard& card) {
  std::string id = card.text("id");
  const auto plain = [](char c) {
    const bool message = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return message || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  if (id.empty() || !std::ranges::all_of(id, plain)) {
    card.refuse("id", "write one or more letters (a to z, A to Z), digits, '-', '_' or '.'");
  }
  return id;
}

void read_update(const RecipeCard& card, Recipe& recipe) {
  if (card.has("masters")) recipe.masters = card.choice("masters", {"fp32", "none"}) == "fp32";
  if (card.has("moments")) recipe.moments = card.format("moments", {"fp32", "bf16"});
  if (card.has("update")) {
    recipe.stochastic_update = card.choice("update", {"nearest", "stochastic"}) == "stochastic";
  }
  if (card.has("loss_scale")) {
    recipe.loss_scaling = card.choice("loss_scale", {"none", "dynamic"}) == "dynamic";
  }
  if (recipe.stochastic_update && recipe.masters) {
    card.refuse("update", "add masters = 'none', without which nothing is rounded so");
  }
  if (!recipe.masters && recipe.compute == fp32) {
    card.refuse("masters", "choose compute = 'bf16' or 'fp16', or masters = 'fp32'");
  }
}

// Returns the module whose product takes that weight.
std::string module_of(const Parameter& weight) {
  const std::string module = weight.name.substr(0, weight.name.rfind('.'));
  if (weight.expert >= 0) {
    const std::string of = ".experts.", number = std::to_string(weight.expert) + ".";
    return std::string(module).replace(module.find(of) + of.size(), number.size(), "");
  }
  return module == "embedding" ? "head" : module;  // tied
}

}  // namespace

Contracted axis_of_weight(const std::string& module, Product product) {
  const bool head = module == "head" || module == "embedding";
  return head == (product == Product::fprop) ? Contracted::columns : Contracted::rows;
}

Taken OperandCasts::of_weight(const std::string& parameter) const {
  const std::string module = parameter.substr(0, parameter.rfind('.'));
  const bool columns = axis_of_weight(module, Product::fprop) == Contracted::columns;
  return columns ? Taken{fprop, dgrad} : Taken{dgrad, fprop};
}

bool OperandCasts::keeps_histories() const {
  return std::ranges::any_of(std::array{&activations, &weights, &gradients},
                             [](const auto* cast) { return cast->scaling == Scaling::delayed; });
}

const OperandCasts* Recipe::casts_of(const Config& config, const std::string& name) const {
  return casts_of_layer(config, model::layer_of(name));
}

const OperandCasts* Recipe::casts_of_layer(const Config& config, int layer) const {
  if (!operands) return nullptr;
  const bool first = layer >= 0 && layer < operands->plain_first;
  const bool last = layer < config.layers && layer >= config.layers - operands->plain_last;
  return layer >= 0 && (first || last) ? nullptr : &*operands;
}

const OperandCasts* Recipe::casts_of(const Config& config, const std::string& name,
                                     Product product) const {
  const OperandCasts* casts = casts_of(config, name);
  return casts != nullptr && casts->take(product) ? casts : nullptr;
}

int Recipe::chain_of(const Config& config, const std::string& name, Product product) const {
  const OperandCasts* casts = casts_of(config, name, product);
  return casts != nullptr ? casts->chain : 0;
}

std::vector<Parameter> multiplied_as_casts(const Config& config, const Recipe& recipe) {
  std::vector<Parameter> all = multiplied(config);
  std::erase_if(all,
                [&](const Parameter& p) { return recipe.casts_of(config, p.name) == nullptr; });
  return all;
}

std::vector<DelayedOperand> delayed_operands(const Config& config, const Recipe& recipe) {
  std::vector<DelayedOperand> all;
  for (const Parameter& weight : multiplied_as_casts(config, recipe)) {
    // All experts' rows are one tensor, which every rank with some of it scales alike.
    const std::string of_rows =
        weight.expert < 0 ? weight.name
                          : weight.name.substr(0, weight.name.find("experts.")) + "router.weight";
    const auto add = [&](const std::string& id, const OperandCast& cast, Taken taken) {
      const bool of_weight = id == weight.name + "/operand";
      if (cast.scaling != Scaling::delayed || !taken.any()) return;
      all.push_back({id, &cast, of_weight ? weight.name : of_rows});
    };
    const OperandCasts& casts = *recipe.operands;
    add(weight.name + "/operand", casts.weights, casts.of_weight(weight.name));
    if (weight.expert > 0) continue;
    std::vector<std::string> layers{module_of(weight)};
    if (config.mtp > 0 && layers.front() == "head") layers.push_back("mtp.head");
    for (const std::string& layer : layers) {
      add(layer + "/operand", casts.activations, casts.of_activations());
      add(layer + "/grad_operand", casts.gradients, casts.of_gradients());
    }
  }
  return all;
}

Recipe recipe_from_json(const std::string& text, const std::string& where) {
  const nlohmann::json fields = recipe_json(text, where);
  const RecipeCard card(fields, where,
                        {"id", "title", "compute", "stream", "wire", "rounding", "operands",
                         "masters", "moments", "update", "loss_scale"},
                        a_recipe);
  Recipe recipe;
  recipe.id = id_of(card);
  recipe.title = card.text("title");
  recipe.compute = card.format("compute", {"fp32", "bf16", "fp16"});
  recipe.stream = recipe.compute;
  if (card.has("stream")) {
    recipe.stream = card.format("stream", {"fp32", std::string(recipe.compute.name)});
  }
  recipe.wire = card.format("wire", {"fp32", "bf16", "fp16"});
  if (card.has("rounding")) {
    recipe.stochastic_results = card.choice("rounding", {"nearest", "stochastic"}) == "stochastic";
  }
  if (recipe.stochastic_results && (recipe.compute == fp32 || recipe.stream == fp32)) {
    card.refuse("rounding",
                "choose compute and stream = 'bf16' or 'fp16', or rounding = 'nearest'");
  }
  if (card.has("operands")) recipe.operands = casts_of(card);
  read_update(card, recipe);
  recipe.card = fields.dump();
  return recipe;
}

bool draws_results(const Recipe& recipe, const Layout& layout) {
  return recipe.stochastic_results && layout.world_size() > 1;
}

std::string wrong_draws(const Recipe& recipe, const Layout& l, const Config& config) {
  if (!draws_results(recipe, l)) return "";
  const auto wrong = [&](const std::string& who, const std::string& instead) {
    return "recipe " + recipe.id + " rounds results by draws of each rank, and " + who +
           " would have to draw alike; " + instead;
  };
  if (l.tp > 1 && !l.sp) return wrong("replicas of an activation over tp", "add sp to the layout");
  if (l.tp > config.kv_heads) {
    return wrong("replicas of a key's head", "take as many key heads as tp");
  }
  if (l.recompute > 0 || l.selective) {
    return wrong("what backward computes again", "leave recompute out of the layout");
  }
  if (config.experts > 0) {
    return wrong("routers of several ranks", "take a family without experts");
  }
  return "";
}

void check_recipe(const Recipe& recipe, const Layout& layout, const Config& config) {
  if (const std::string wrong = wrong_draws(recipe, layout, config); !wrong.empty()) {
    throw Failure(wrong);
  }
  if (layout.whole_experts && recipe.operands &&
      recipe.operands->weights.scaling == Scaling::block) {
    throw Failure(
        "recipe " + recipe.id +
        " scales in blocks, which are made for slices of experts; leave etp1 out, or take "
        "another recipe");
  }
  if (config.idle_layers == 0 || !recipe.operands) return;
  for (const OperandCast* cast :
       {&recipe.operands->activations, &recipe.operands->weights, &recipe.operands->gradients}) {
    if (cast->scaling != Scaling::delayed) continue;
    throw Failure("recipe " + recipe.id +
                  " scales by histories, and idle layers would add nothing to theirs; leave "
                  "--idle-layers out, or take another recipe");
  }
}

std::vector<Recipe> all_recipes() {
  std::vector<Recipe> recipes;
  for (const auto& [name, text] : recipe_cards()) {
    recipes.push_back(recipe_from_json(std::string(text), "recipe " + std::string(name)));
    recipes.back().card.clear();
  }
  return recipes;
}

Recipe find_recipe(const std::string& id) {
  std::vector<std::string> known;
  for (const Recipe& recipe : all_recipes()) {
    if (recipe.id == id) return recipe;
    known.push_back(recipe.id);
  }
  throw Failure(unknown("recipe", id, known) + "; a file of one's own ends in .json");
}

Recipe recipe_from(const std::string& id_or_file) {
  if (!id_or_file.ends_with(".json")) return find_recipe(id_or_file);
  Recipe recipe = recipe_from_json(contents(id_or_file), id_or_file);
  for (const Recipe& shipped : all_recipes()) {
    if (shipped.id != recipe.id) continue;
    throw Failure(id_or_file + " calls itself '" + recipe.id +
                  "', as a shipped recipe does; give it an id of its own");
  }
  return recipe;
}

}  // namespace plumb::model
