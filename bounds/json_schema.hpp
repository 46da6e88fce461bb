// bounds/json_schema.hpp: is a document as its JSON Schema says? The answer is one sentence for whoever
// wrote the document.
//
// Of JSON Schema the words that the schemas of the house use are understood; another word in one is a
// std::logic_error of the constructor, so that none is passed over. The text of a value that is not right
// comes from "description" of its schema: "expected DESCRIPTION". Alternatives ("anyOf") are told apart
// by the constant that their property "name" has, where they have one.
//
// COSTS    a schema is read once, and one lives as long as the program: traces have a document a tensor
//          and rank
// TESTED   tests/bounds/json_schema_test.cpp, tests/bounds/machine_card_test.cpp,
//          tests/trace/format2_test.cpp
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "bounds/sees.hpp"

namespace plumb::bounds {

class JsonSchema {
 public:
  explicit JsonSchema(std::string_view text);

  // Returns what is wrong with a document; empty: nothing.
  std::string wrong_with(const nlohmann::json& document) const;

 private:
  class Forms;
  std::shared_ptr<const Forms> forms_;
};

}  // namespace plumb::bounds
