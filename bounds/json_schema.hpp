// bounds/json_schema.hpp: is a document as its JSON Schema says? The answer is one sentence for whoever
// wrote the document.
//
// Of JSON Schema the words that the schemas of the house use are understood; another word in one is a
// failure, so that none is passed over. The text of a value that is not right comes from "description"
// of its schema: "expected DESCRIPTION". Alternatives ("anyOf") are told apart by the constant that
// their property "name" has, where they have one.
//
// TESTED   tests/bounds/machine_card_test.cpp, tests/trace/format2_test.cpp
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "bounds/sees.hpp"

namespace plumb::bounds {

class JsonSchema {
 public:
  explicit JsonSchema(std::string_view text) : schema_(nlohmann::json::parse(text)) {}

  // Returns what is wrong with a document; empty: nothing.
  std::string wrong_with(const nlohmann::json& document) const {
    return wrong_with(document, schema_, "");
  }

 private:
  const nlohmann::json& resolved(const nlohmann::json& form) const;
  std::string wrong_with(const nlohmann::json& value, const nlohmann::json& form,
                         const std::string& place) const;
  std::string wrong_with_fields(const nlohmann::json& value, const nlohmann::json& form,
                                const std::string& place) const;
  std::string wrong_with_all(const nlohmann::json& value, const nlohmann::json& alternatives,
                             const std::string& place) const;
  std::string wrong_with_any(const nlohmann::json& value, const nlohmann::json& form,
                             const std::string& place) const;

  nlohmann::json schema_;
};

}  // namespace plumb::bounds
