#include "model/spec/recipe_card.hpp"

#include <algorithm>

#include "model/spec/recipe_json.hpp"
#include "number/outcome.hpp"

namespace plumb::model {
namespace {

using nlohmann::json;

std::string listed(const RecipeCard::Names& names) {
  std::string all;
  for (const std::string_view name : names) all.append(all.empty() ? "" : ", ").append(name);
  return all;
}

bool holds(const RecipeCard::Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Is it a whole number as a user writes it: neither 4.0 nor "4"?
bool is_whole(const json& value, int most) {
  return value.is_number_integer() && value >= 1 && value <= most;
}

}  // namespace

RecipeCard::RecipeCard(const json& fields, std::string name, const Names& known,
                       const std::string& example)
    : fields_(fields), name_(std::move(name)) {
  if (!fields.is_object()) {
    throw Failure(name_ + " is " + shown(fields) + "; write an object instead, such as " + example);
  }
  for (const auto& [field, value] : fields.items()) {
    if (holds(known, field)) continue;
    throw Failure(name_ + " has an unknown field '" + field + "'; known: " + listed(known));
  }
}

const json& RecipeCard::value(const char* field, const std::string& instead) const {
  if (has(field)) return fields_.at(field);
  throw Failure(name_ + " lacks '" + field + "'; add it and " + instead);
}

void RecipeCard::refuse(const char* field, const std::string& instead) const {
  throw Failure(name_ + " says " + field + " = " + shown(fields_.at(field)) + "; " + instead);
}

std::string RecipeCard::text(const char* field) const {
  const char* instead = "write text in double quotes";
  const json& said = value(field, instead);
  if (!said.is_string()) refuse(field, instead);
  return said;
}

std::string RecipeCard::choice(const char* field, const Names& possible,
                               const std::string& when) const {
  const std::string instead = "choose " + listed(possible) + when;
  const json& said = value(field, instead);
  if (!said.is_string() || !holds(possible, said.get<std::string>())) refuse(field, instead);
  return said;
}

RecipeCard::Names RecipeCard::choices(const char* field, const Names& possible) const {
  const std::string instead = "list some of these, each once: " + listed(possible);
  const json& said = value(field, instead);
  Names chosen;
  for (const std::string_view name : possible) {
    if (said.is_array() && std::ranges::count(said, name) == 1) chosen.push_back(name);
  }
  if (chosen.empty() || chosen.size() != said.size()) refuse(field, instead);
  return chosen;
}

Format RecipeCard::format(const char* field, const Names& possible, const std::string& when) const {
  return *find_format(choice(field, possible, when));
}

int RecipeCard::size(const char* field, int most) const {
  const std::string instead = "write a whole number from 1 to " + std::to_string(most);
  const json& said = value(field, instead);
  if (!is_whole(said, most)) refuse(field, instead);
  return said;
}

std::pair<int, int> RecipeCard::two_sizes(const char* field) const {
  constexpr int most = 4096;
  const std::string instead =
      "write two whole numbers from 1 to " + std::to_string(most) +
      ", such as [1, 32]: 32 along the axis that a product sums over, 1 across";
  const json& said = value(field, instead);
  const bool two = said.is_array() && said.size() == 2;
  if (!two || !is_whole(said[0], most) || !is_whole(said[1], most)) refuse(field, instead);
  return {said[0], said[1]};
}

std::pair<int, int> RecipeCard::two_counts(const char* field) const {
  const std::string instead = "write two whole numbers from 0 to 4096, such as [1, 2]: the first " +
                              std::string("layer and the last two");
  const json& said = value(field, instead);
  const auto is_count = [](const json& x) { return x == 0 || is_whole(x, 4096); };
  if (!said.is_array() || said.size() != 2 || !is_count(said[0]) || !is_count(said[1])) {
    refuse(field, instead);
  }
  return {said[0], said[1]};
}

RecipeCard RecipeCard::inner(const char* field, const Names& known,
                             const std::string& example) const {
  const json& said = value(field, "write an object, such as " + example);
  RecipeCard card(said, name_ + (is_inner_ ? "." : ": ") + field, known, example);
  card.is_inner_ = true;
  return card;
}

void RecipeCard::only(const Names& fields, const std::string& when) const {
  for (const auto& [field, value] : fields_.items()) {
    if (holds(fields, field)) continue;
    throw Failure(name_ + " has '" + field + "', which says nothing" + when + "; remove it");
  }
}

}  // namespace plumb::model
