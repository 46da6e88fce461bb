// model/spec/recipe_card.hpp: an object of a recipe, field by field. A field that is not as a
// recipe has it is refused with one sentence: where, what it says, what to write instead.
//
// TESTED   tests/model/recipe_test.cpp
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/sees.hpp"
#include "number/format.hpp"

namespace plumb::model {

class RecipeCard {
 public:
  using Names = std::vector<std::string_view>;

  // `fields` outlives the card; `name` stands in its sentences, `example` says what to write where
  // there is no object. Throws Failure if it is none, or has a field that is not known.
  RecipeCard(const nlohmann::json& fields, std::string name, const Names& known,
             const std::string& example);

  // All functions that follow throw Failure, too.
  bool has(const char* field) const { return fields_.contains(field); }
  std::string text(const char* field) const;
  // `when`: why just these are possible.
  std::string choice(const char* field, const Names& possible, const std::string& when = "") const;
  // Returns at least one of them, each once.
  Names choices(const char* field, const Names& possible) const;
  Format format(const char* field, const Names& possible, const std::string& when = "") const;
  int size(const char* field, int most) const;
  // Returns the sizes [1, 32] of a block, across and along the axis that a product sums over.
  std::pair<int, int> two_sizes(const char* field) const;
  // Returns two counts, [1, 0], of layers.
  std::pair<int, int> two_counts(const char* field) const;
  RecipeCard inner(const char* field, const Names& known, const std::string& example) const;
  // Has it no other field, whatever is known? `when`: why just these.
  void only(const Names& fields, const std::string& when) const;

  // "NAME says FIELD = VALUE; INSTEAD".
  [[noreturn]] void refuse(const char* field, const std::string& instead) const;

 private:
  const nlohmann::json& value(const char* field, const std::string& instead) const;

  const nlohmann::json& fields_;
  std::string name_;
  bool is_inner_ = false;
};

}  // namespace plumb::model
