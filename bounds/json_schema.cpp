#include "bounds/json_schema.hpp"

#include <algorithm>
#include <array>
#include <regex>
#include <stdexcept>

namespace plumb::bounds {
namespace {

using nlohmann::json;

// A text of the document as it may be printed.
std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  std::ranges::replace(text, '"', '\'');
  return text;
}

std::string named(const std::string& place) { return place.empty() ? "it" : place; }

// A part of a schema, not copied; null where it has none.
const json& part_of(const json& form, const char* word) {
  static const json none;
  const auto found = form.find(word);
  return found == form.end() ? none : *found;
}

bool is_of_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  throw std::logic_error("a schema asks for an unknown type " + type);
}

// Does one word of the schema hold for the value by itself?
bool holds(const std::string& word, const json& of, const json& value) {
  const auto length = [&] {
    return value.is_string() ? value.get_ref<const std::string&>().size() : value.size();
  };
  if (word == "type") return is_of_type(value, of.get<std::string>());
  if (word == "const") return value == of;
  if (word == "enum") return std::ranges::find(of, value) != of.end();
  if (word == "minLength" || word == "minItems") return length() >= of.get<std::size_t>();
  if (word == "maxLength" || word == "maxItems") return length() <= of.get<std::size_t>();
  if (word == "minimum") return value >= of;
  if (word == "maximum") return value <= of;
  if (word == "pattern") {
    return value.is_string() &&
           std::regex_match(value.get<std::string>(), std::regex(of.get<std::string>()));
  }
  constexpr std::array known{
      "$schema", "$defs", "title", "description", "required", "properties", "additionalProperties",
      "items",   "anyOf", "$ref"};
  if (std::ranges::find(known, word) == known.end()) {
    throw std::logic_error("a schema has an unknown word " + word);
  }
  return true;
}

}  // namespace

const json& JsonSchema::resolved(const json& form) const {
  if (!form.contains("$ref")) return form;
  constexpr std::string_view sign = "#";
  const auto at = form.at("$ref").get<std::string>().substr(sign.size());
  return schema_.at(json::json_pointer(at));
}

std::string JsonSchema::wrong_with_fields(const json& value, const json& form,
                                          const std::string& place) const {
  const json &known = part_of(form, "properties"), &others = part_of(form, "additionalProperties");
  for (const json& field : part_of(form, "required")) {
    if (!value.contains(field.get_ref<const std::string&>())) {
      return named(place) + " has no " + shown(field);
    }
  }
  for (const auto& [field, part] : value.items()) {
    const std::string below = (place.empty() ? "" : place + ".") + field;
    if (known.contains(field) || others.is_object()) {
      const json& of = known.contains(field) ? known.at(field) : others;
      if (const auto wrong = wrong_with(part, of, below); !wrong.empty()) return wrong;
    } else if (others == json(false)) {
      std::string fields;
      for (const auto& [name, any] : known.items()) fields += (fields.empty() ? "" : ", ") + name;
      return named(place) + " has a field " + shown(field) + "; known: " + fields;
    }
  }
  return "";
}

// Of alternatives that their names tell apart: what is wrong with the one that is meant.
std::string JsonSchema::wrong_with_all(const json& value, const json& alternatives,
                                       const std::string& place) const {
  std::string names;
  for (const json& form : alternatives) {
    const json& name = form.at("properties").at("name").at("const");
    if (value.at("name") == name)
      return wrong_with_fields(value, form, place + " (" + name.get<std::string>() + ")");
    names += (names.empty() ? "" : ", ") + name.get<std::string>();
  }
  return place + ".name is " + shown(value.at("name")) + "; expected one of " + names;
}

std::string JsonSchema::wrong_with_any(const json& value, const json& form,
                                       const std::string& place) const {
  const json& alternatives = form.at("anyOf");
  if (alternatives.front().contains("properties")) {
    return wrong_with_all(value, alternatives, place);
  }
  for (const json& alternative : alternatives) {
    if (wrong_with(value, alternative, place).empty()) return "";
  }
  return named(place) + " is " + shown(value) + "; expected " +
         form.at("description").get<std::string>();
}

std::string JsonSchema::wrong_with(const json& value, const json& maybe,
                                   const std::string& place) const {
  const json& form = resolved(maybe);
  for (const auto& [word, of] : form.items()) {
    if (holds(word, of, value)) continue;
    return named(place) + " is " + shown(value) + "; expected " +
           form.value("description", "an object");
  }
  if (form.contains("properties") || form.contains("additionalProperties")) {
    if (const auto wrong = wrong_with_fields(value, form, place); !wrong.empty()) return wrong;
  }
  if (form.contains("anyOf")) return wrong_with_any(value, form, place);
  if (!form.contains("items")) return "";
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string item = place + "[" + std::to_string(i) + "]";
    if (const auto wrong = wrong_with(value[i], form.at("items"), item); !wrong.empty()) {
      return wrong;
    }
  }
  return "";
}

}  // namespace plumb::bounds
