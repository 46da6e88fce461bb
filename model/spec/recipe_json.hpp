// model/spec/recipe_json.hpp: reads the text of a recipe as JSON, or says where it is none.
//
// TESTED   tests/model/recipe_test.cpp
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "model/sees.hpp"

namespace plumb::model {

// Throws Failure, with the place and what was expected, if `text` is no JSON, has a field twice,
// holds control characters, or nests deeper than any recipe; `where` names the text.
nlohmann::json recipe_json(const std::string& text, const std::string& where);

// A value in a sentence: 'text', 4.5, [1,32], an object.
std::string shown(const nlohmann::json& value);

}  // namespace plumb::model
