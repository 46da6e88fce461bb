#include "bounds/json_schema.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace plumb::bounds {
namespace {

using nlohmann::json;

std::string wrong(const char* schema, const char* document) {
  return JsonSchema(schema).wrong_with(json::parse(document));
}

TEST(JsonSchema, SaysWhereAValueIsThatIsNotRight) {
  const char* schema = R"({
    "type": "object", "required": ["rows"], "additionalProperties": false,
    "properties": {"rows": {"type": "array", "items": {
      "type": "object", "description": "a row", "additionalProperties": {"$ref": "#/$defs/size"}}}},
    "$defs": {"size": {"type": "integer", "minimum": 1, "maximum": 9, "description": "1 to 9"}}})";
  EXPECT_EQ(wrong(schema, R"({"rows": [{}, {"n": 9, "m": 1}]})"), "");
  EXPECT_EQ(wrong(schema, R"({"rows": [{}, {"n": 10}]})"), "rows[1].n is 10; expected 1 to 9");
  EXPECT_EQ(wrong(schema, R"({"rows": [{}, {"n": 0}]})"), "rows[1].n is 0; expected 1 to 9");
  EXPECT_EQ(wrong(schema, R"({"rows": [[]]})"), "rows[0] is []; expected a row");
  EXPECT_EQ(wrong(schema, "{}"), "it has no 'rows'");
  EXPECT_EQ(wrong(schema, R"({"rows": [], "cols": 1})"), "it has a field 'cols'; known: rows");
  EXPECT_EQ(wrong(schema, "[]"), "it is []; expected an object");
}

TEST(JsonSchema, TellsAlternativesApartByTheirName) {
  const char* schema = R"({
    "type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}, "anyOf": [
      {"properties": {"name": {"const": "a"}, "value": {"enum": [1, 2], "description": "1 or 2"}}},
      {"properties": {"name": {"const": "b"}, "value": {"pattern": "x+", "description": "some x"}}}]})";
  EXPECT_EQ(wrong(schema, R"({"name": "a", "value": 2})"), "");
  EXPECT_EQ(wrong(schema, R"({"name": "b", "value": "xx"})"), "");
  EXPECT_EQ(wrong(schema, R"({"name": "a", "value": "xx"})"),
            " (a).value is 'xx'; expected 1 or 2");
  EXPECT_EQ(wrong(schema, R"({"name": "b", "value": "xy"})"),
            " (b).value is 'xy'; expected some x");
  EXPECT_EQ(wrong(schema, R"({"name": "c"})"), ".name is 'c'; expected one of a, b");
}

TEST(JsonSchema, TakesOneOfAlternativesWithoutNames) {
  const char* schema = R"({"description": "nothing, or two words", "anyOf": [
    {"type": "null"}, {"type": "array", "minItems": 2, "maxItems": 2, "items": {"minLength": 1}}]})";
  EXPECT_EQ(wrong(schema, "null"), "");
  EXPECT_EQ(wrong(schema, R"(["a", "b"])"), "");
  EXPECT_EQ(wrong(schema, R"(["a", ""])"), "it is ['a','']; expected nothing, or two words");
  EXPECT_EQ(wrong(schema, R"(["a"])"), "it is ['a']; expected nothing, or two words");
}

TEST(JsonSchema, IsNotMadeOfWhatItDoesNotUnderstand) {
  for (const char* schema :
       {R"({"format": "date"})", R"({"type": "text"})",
        R"({"properties": {"a": {"items": {"not": {}}}}})", R"({"items": {"$ref": "#/items"}})"}) {
    EXPECT_THROW(JsonSchema{schema}, std::logic_error) << schema;
  }
}

}  // namespace
}  // namespace plumb::bounds
