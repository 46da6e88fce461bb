#include "bounds/machine_card.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <stdexcept>

#include "number/outcome.hpp"

namespace plumb::bounds {

// Made by embed() from bounds/machine-card.schema.json.
std::string_view machine_card_schema();

namespace {

using nlohmann::json;

const json& schema() {
  static const json parsed = json::parse(machine_card_schema());
  return parsed;
}

const json& resolved(const json& form) {
  if (!form.contains("$ref")) return form;
  constexpr std::string_view sign = "#";
  const auto at = form.at("$ref").get<std::string>().substr(sign.size());
  return schema().at(json::json_pointer(at));
}

// A text of the card as it may be printed.
std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  std::ranges::replace(text, '"', '\'');
  return text;
}

bool is_of_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  throw std::logic_error("the schema of cards asks for an unknown type " + type);
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
      "items",   "anyOf"};
  if (std::ranges::find(known, word) == known.end()) {
    throw std::logic_error("the schema of cards has an unknown word " + word);
  }
  return true;
}

std::string wrong_with(const json& value, const json& form, const std::string& place);

std::string wrong_with_fields(const json& value, const json& form, const std::string& place) {
  const std::string in = place.empty() ? "it" : place;
  for (const json& field : form.value("required", json::array())) {
    if (!value.contains(field.get<std::string>())) return in + " has no " + shown(field);
  }
  const json& known = form.at("properties");
  for (const auto& [field, part] : value.items()) {
    if (known.contains(field)) {
      const std::string below = (place.empty() ? "" : place + ".") + field;
      if (const std::string wrong = wrong_with(part, known.at(field), below); !wrong.empty()) {
        return wrong;
      }
    } else if (form.contains("additionalProperties")) {
      std::string fields;
      for (const auto& [name, any] : known.items()) fields += (fields.empty() ? "" : ", ") + name;
      return in + " has a field " + shown(field) + "; known: " + fields;
    }
  }
  return "";
}

// Of alternatives that their names tell apart: what is wrong with the one that is meant.
std::string wrong_with_all(const json& value, const json& alternatives, const std::string& place) {
  std::string names;
  for (const json& form : alternatives) {
    const json& name = form.at("properties").at("name").at("const");
    if (value.at("name") == name)
      return wrong_with_fields(value, form, place + " (" + name.get<std::string>() + ")");
    names += (names.empty() ? "" : ", ") + name.get<std::string>();
  }
  return place + ".name is " + shown(value.at("name")) + "; expected one of " + names;
}

std::string wrong_with(const json& value, const json& maybe, const std::string& place) {
  const json& form = resolved(maybe);
  for (const auto& [word, of] : form.items()) {
    if (holds(word, of, value)) continue;
    return (place.empty() ? "it" : place) + " is " + shown(value) + "; expected " +
           form.value("description", "an object");
  }
  if (form.contains("properties")) {
    if (const auto wrong = wrong_with_fields(value, form, place); !wrong.empty()) return wrong;
  }
  if (form.contains("anyOf")) return wrong_with_all(value, form.at("anyOf"), place);
  if (!form.contains("items")) return "";
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string item = place + "[" + std::to_string(i) + "]";
    if (const auto wrong = wrong_with(value[i], form.at("items"), item); !wrong.empty()) {
      return wrong;
    }
  }
  return "";
}

std::string text_of_collective(const Machine& machine) {
  if (!machine.collective) return "";
  const Collective& is = *machine.collective;
  std::string text = ",\n  \"collective\": {\"algorithm\": ";
  text += json(algorithm_names[static_cast<std::size_t>(is.algorithm)]).dump();
  text += ", \"ranks\": " + std::to_string(is.ranks);
  text += ", \"wire\": " + json(is.wire.name).dump();
  if (is.rotation) text += ", \"rotation\": " + std::to_string(*is.rotation);
  text += ", \"provenance\": " + json(name_of(machine.collective_provenance)).dump();
  return text + ", \"source\": " + json(machine.collective_source).dump() + "}";
}

std::string fact_said_twice(const json& card) {
  std::set<std::string> names;
  for (const json& fact : card.at("facts")) {
    const auto name = fact.at("name").get<std::string>();
    if (!names.insert(name).second) return "its facts say '" + name + "' twice";
  }
  return "";
}

}  // namespace

std::string wrong_with_card(std::string_view text) {
  if (text.size() > longest_card)
    return "it is longer than " + std::to_string(longest_card) + " bytes";
  int deepest = 0;  // a card has three levels; printing thousands would need a deep stack
  const auto look = [&](int depth, json::parse_event_t, json&) {
    deepest = std::max(deepest, depth);
    return deepest < 8;
  };
  const json card = json::parse(text, look, false);
  if (card.is_discarded() || deepest >= 8) return "it is no JSON of a card";
  const std::string wrong = wrong_with(card, schema(), "");
  return wrong.empty() ? fact_said_twice(card) : wrong;
}

Machine machine_from_card(const std::string& name, std::string_view text) {
  const auto refuse = [&](const std::string& why) {
    throw Failure("machine card '" + name + "': " + why + "; see docs/machine-cards.md");
  };
  if (const std::string wrong = wrong_with_card(text); !wrong.empty()) refuse(wrong);
  try {
    Machine machine = parse_machine(name, text);
    (void)machine.order();
    (void)machine.product_order(1);
    for (const Format& format : all_formats) {
      (void)machine.mma(format);
      (void)machine.mma(format, fp16);
      (void)machine.mma_scaling(format, format);
    }
    return machine;
  } catch (const std::exception& wrong) {  // what no schema says: a rotation of another ring
    const std::string said = wrong.what();
    refuse(said.substr(0, said.find('\n')));
    throw;
  }
}

std::string text_of(const Machine& machine) {
  std::string text = "{\n  \"title\": " + json(machine.title).dump() + ",\n  \"facts\": [";
  const char* before = "\n    ";
  for (const Fact& fact : machine.facts) {
    text += before;
    before = ",\n    ";
    const char* comma = "{";
    for (const auto& [field, value] : {std::pair<const char*, std::string>{"name", fact.name},
                                       {"value", fact.value},
                                       {"provenance", std::string(name_of(fact.provenance))},
                                       {"source", fact.source}}) {
      text += comma + std::string("\"") + field + "\": " + json(value).dump();
      comma = ", ";
    }
    text += "}";
  }
  return text + "\n  ]" + text_of_collective(machine) + "\n}\n";
}

}  // namespace plumb::bounds
