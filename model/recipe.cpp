#include "model/recipe.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string_view>
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
  Format format(const char* field, const Names& possible) const {
    return *find_format(choice(field, possible));
  }
  Card inner(const char* field, const Names& known) const {
    return {has(field) ? fields_[field] : json(), where_ + ", field '" + field + "',", known};
  }

 private:
  const json fields_;
  std::string where_;
};

OperandCast cast_of(const Card& of) {
  const bool scaled = of.choice("scaling", {"none", "tensor"}) == "tensor";
  return {scaled ? of.format("format", {"e4m3fn", "e5m2"}) : of.format("format", {"tf32"}),
          scaled ? Scaling::tensor : Scaling::none};
}

OperandCasts casts_of(const Card& card) {
  const Card all = card.inner("operands", {"activations", "weights", "gradients"});
  const auto one = [&](const char* of) { return cast_of(all.inner(of, {"format", "scaling"})); };
  return {one("activations"), one("weights"), one("gradients")};
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

}  // namespace

Recipe recipe_from_json(const std::string& text, const std::string& where) {
  const json fields = json::parse(text, nullptr, false);
  const Card card(fields, where, {"id", "title", "compute", "wire", "operands"});
  Recipe recipe{card.text("id"),
                card.text("title"),
                card.format("compute", {"fp32", "bf16"}),
                card.format("wire", {"fp32", "bf16"}),
                {},
                fields.dump()};
  if (card.has("operands")) recipe.operands = casts_of(card);
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
