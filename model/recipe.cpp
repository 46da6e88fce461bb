#include "model/recipe.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

#include "bounds/outcome.hpp"

namespace plumb {

std::span<const std::pair<std::string_view, std::string_view>> recipe_cards();  // embedded

namespace {

using Names = std::vector<std::string_view>;
using json = nlohmann::json;

std::string listed(const Names& names) {
  std::string all;
  for (const std::string_view name : names) all.append(all.empty() ? "" : ", ").append(name);
  return all;
}

bool holds(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// An object of a recipe, and what to call it in a sentence.
class Card {
 public:
  Card(const json& fields, std::string where, const Names& known)
      : fields_(fields), where_(std::move(where)) {
    if (!fields.is_object()) {
      throw Failure(where_ + " is not a JSON object; see model/recipes/bf16.json");
    }
    for (const auto& [field, value] : fields.items()) {
      if (holds(known, field)) continue;
      throw Failure(where_ + " has an unknown field '" + field + "'; known: " + listed(known));
    }
  }

  bool has(const char* field) const { return fields_.contains(field); }
  std::string text(const char* field) const {
    if (has(field) && fields_[field].is_string()) return fields_[field];
    throw Failure(where_ + " lacks the text field '" + field + "'; see model/recipes/bf16.json");
  }
  std::string choice(const char* field, const Names& possible) const {
    const std::string name = text(field);
    if (holds(possible, name)) return name;
    throw Failure(where_ + " says " + field + " = '" + name + "'; choose " + listed(possible));
  }
  // At least one of them, each once.
  Names choices(const char* field, const Names& possible) const {
    const json& names = fields_[field];
    Names chosen;
    for (const std::string_view name : possible) {
      if (names.is_array() && std::ranges::count(names, name) == 1) chosen.push_back(name);
    }
    if (names.is_array() && !chosen.empty() && chosen.size() == names.size()) return chosen;
    throw Failure(where_ + " says " + field + " = " + names.dump() +
                  "; list some of these, each once: " + listed(possible));
  }
  Format format(const char* field, const Names& possible) const {
    return *find_format(choice(field, possible));
  }
  [[noreturn]] void no(const char* field, const std::string& without) const {
    throw Failure(where_ + " says " + field + " = '" + text(field) + "', which needs " + without);
  }
  int size(const char* field, int most) const {
    const json n = has(field) ? fields_[field] : json();
    if (n.is_number_integer() && n >= 1 && n <= most) return n;
    throw Failure(where_ + " lacks '" + field + "', a whole number from 1 to " +
                  std::to_string(most));
  }
  // [1, 32]: of a block, across and along the axis that a product sums over.
  std::pair<int, int> two_sizes(const char* field) const {
    const json sizes = has(field) ? fields_[field] : json();
    const auto whole = [](const json& n) { return n.is_number_integer() && n >= 1 && n <= 4096; };
    if (sizes.is_array() && sizes.size() == 2 && whole(sizes[0]) && whole(sizes[1])) {
      return {sizes[0], sizes[1]};
    }
    throw Failure(where_ + " lacks '" + field +
                  "', two whole numbers up to 4096: [1, 32] are 32 "
                  "along the axis that a product sums over");
  }
  Card inner(const char* field, const Names& known) const {
    return {has(field) ? fields_[field] : json(), where_ + ", field '" + field + "',", known};
  }

 private:
  const json fields_;
  std::string where_;
};

// The formats that a scale is written in, and what they make of a block's largest magnitude.
constexpr std::pair<std::string_view, ScaleRule> scale_formats[] = {
    {"e8m0", ScaleRule::ceil}, {"fp32", ScaleRule::exact}, {"e4m3fn", ScaleRule::nested}};

OperandCast blocks_of(const Card& of) {
  OperandCast cast{of.format("format", {"e4m3fn", "e5m2", "e3m2", "e2m3", "e2m1"}), Scaling::block};
  std::tie(cast.across, cast.along) = of.two_sizes("block");
  const std::string scale = of.choice("scale", {"e8m0", "fp32", "e4m3fn"});
  for (const auto& [format, rule] : scale_formats) {
    if (format == scale) cast.rule = rule;
  }
  if (of.has("rounding")) {
    cast.stochastic = of.choice("rounding", {"nearest", "stochastic"}) == "stochastic";
  }
  return cast;
}

OperandCast cast_of(const Card& card, const char* field) {
  const auto with = [&](Names more) {
    more.insert(more.end(), {"format", "scaling"});
    return card.inner(field, more);
  };
  const Names of_blocks{"block", "scale", "rounding"}, of_delayed{"history"};
  const Names any{"block", "scale", "rounding", "history"};
  const std::string scaling = with(any).choice("scaling", {"none", "tensor", "delayed", "block"});
  if (scaling == "block") return blocks_of(with(of_blocks));
  if (scaling == "delayed") {
    const Card delayed = with(of_delayed);
    OperandCast cast{delayed.format("format", {"e4m3fn", "e5m2"}), Scaling::delayed};
    cast.history = delayed.size("history", 4096);
    return cast;
  }
  if (scaling == "tensor") return {with({}).format("format", {"e4m3fn", "e5m2"}), Scaling::tensor};
  return {with({}).format("format", {"tf32"})};
}

OperandCasts casts_of(const Card& card) {
  const Card all = card.inner("operands", {"activations", "weights", "gradients", "products"});
  OperandCasts casts{cast_of(all, "activations"), cast_of(all, "weights"),
                     cast_of(all, "gradients")};
  if (!all.has("products")) return casts;
  const Names taken = all.choices("products", {"fprop", "dgrad", "wgrad"});
  casts.fprop = holds(taken, "fprop");
  casts.dgrad = holds(taken, "dgrad");
  casts.wgrad = holds(taken, "wgrad");
  return casts;
}

std::string contents(const std::string& file) {
  namespace fs = std::filesystem;
  constexpr std::uintmax_t longest = 1 << 20;
  if (!fs::is_regular_file(file) || fs::file_size(file) > longest) {
    throw Failure("there is no recipe file " + file + "; name a JSON file below 1 MiB, such as " +
                  "model/recipes/bf16.json");
  }
  std::ostringstream all;
  all << std::ifstream(file, std::ios::binary).rdbuf();
  return all.str();
}

void read_update(const Card& card, Recipe& recipe) {
  if (card.has("masters")) recipe.masters = card.choice("masters", {"fp32", "none"}) == "fp32";
  if (card.has("moments")) recipe.moments = card.format("moments", {"fp32", "bf16"});
  if (card.has("update")) {
    recipe.stochastic_update = card.choice("update", {"nearest", "stochastic"}) == "stochastic";
  }
  if (card.has("loss_scale")) {
    recipe.loss_scaling = card.choice("loss_scale", {"none", "dynamic"}) == "dynamic";
  }
  if (recipe.stochastic_update && recipe.masters) card.no("update", "none as masters");
  if (!recipe.masters && recipe.compute == fp32) card.no("masters", "a compute format below fp32");
}

// The layer whose product takes that weight.
std::string layer_of(const Parameter& weight) {
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

std::vector<DelayedOperand> delayed_operands(const Config& config, const Recipe& recipe) {
  std::vector<DelayedOperand> all;
  if (!recipe.operands) return all;
  for (const Parameter& weight : multiplied(config)) {
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
    std::vector<std::string> layers{layer_of(weight)};
    if (config.mtp > 0 && layers.front() == "head") layers.push_back("mtp.head");
    for (const std::string& layer : layers) {
      add(layer + "/operand", casts.activations, casts.of_activations());
      add(layer + "/grad_operand", casts.gradients, casts.of_gradients());
    }
  }
  return all;
}

Recipe recipe_from_json(const std::string& text, const std::string& where) {
  const json fields = json::parse(text, nullptr, false);
  const Card card(
      fields, where,
      {"id", "title", "compute", "wire", "operands", "masters", "moments", "update", "loss_scale"});
  Recipe recipe;
  recipe.id = card.text("id");
  recipe.title = card.text("title");
  recipe.compute = card.format("compute", {"fp32", "bf16", "fp16"});
  recipe.wire = card.format("wire", {"fp32", "bf16", "fp16"});
  if (card.has("operands")) recipe.operands = casts_of(card);
  read_update(card, recipe);
  recipe.card = fields.dump();
  return recipe;
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
  std::string known;
  for (const Recipe& recipe : all_recipes()) {
    if (recipe.id == id) return recipe;
    known += (known.empty() ? "" : ", ") + recipe.id;
  }
  throw Failure("unknown recipe '" + id + "'; known: " + known +
                "; or name a file that ends in .json");
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

}  // namespace plumb
