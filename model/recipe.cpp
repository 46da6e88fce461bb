#include "model/recipe.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "bounds/outcome.hpp"

namespace plumb {

std::span<const std::pair<std::string_view, std::string_view>> recipe_cards();  // embedded

namespace {

std::string text_of(const nlohmann::json& card, const char* field, const std::string& where) {
  if (!card.contains(field) || !card[field].is_string()) {
    throw Failure(where + " lacks the text field '" + field + "'; see model/recipes/bf16.json");
  }
  return card[field];
}

Format format_of(const nlohmann::json& card, const char* field, const std::string& where) {
  const std::string name = text_of(card, field, where);
  if (name != "fp32" && name != "bf16") {
    throw Failure(where + " says " + field + " = '" + name +
                  "'; the model computes in fp32 and bf16 so far");
  }
  return *find_format(name);
}

// A format that products may see their operands in.
std::optional<Format> operand_format(const nlohmann::json& card, const char* field,
                                     const std::string& where) {
  if (!card.contains("operands") && !card.contains("grad_operands")) return {};
  const std::string name = text_of(card, field, where);
  if (name != "e4m3fn" && name != "e5m2") {
    throw Failure(where + " says " + field + " = '" + name + "'; operands are e4m3fn or e5m2");
  }
  return *find_format(name);
}

}  // namespace

Recipe recipe_from_json(const std::string& text, const std::string& where) {
  const auto card = nlohmann::json::parse(text, nullptr, false);
  if (!card.is_object())
    throw Failure(where + " is not a JSON object; see model/recipes/bf16.json");
  for (const auto& [field, value] : card.items()) {
    constexpr std::array known{"id", "title", "compute", "wire", "operands", "grad_operands"};
    if (std::ranges::find(known, field) == known.end()) {
      throw Failure(where + " has an unknown field '" + field +
                    "'; known: id, title, compute, wire, operands, grad_operands");
    }
  }
  return {text_of(card, "id", where),
          text_of(card, "title", where),
          format_of(card, "compute", where),
          format_of(card, "wire", where),
          operand_format(card, "operands", where),
          operand_format(card, "grad_operands", where)};
}

std::vector<Recipe> all_recipes() {
  std::vector<Recipe> recipes;
  for (const auto& [name, text] : recipe_cards()) {
    recipes.push_back(recipe_from_json(std::string(text), "recipe " + std::string(name)));
  }
  return recipes;
}

Recipe find_recipe(const std::string& id) {
  std::string known;
  for (const Recipe& recipe : all_recipes()) {
    if (recipe.id == id) return recipe;
    known += (known.empty() ? "" : ", ") + recipe.id;
  }
  throw Failure("unknown recipe '" + id + "'; known: " + known);
}

}  // namespace plumb
