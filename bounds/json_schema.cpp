#include "bounds/json_schema.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>
#include <vector>

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

// A part of a schema, not copied; null where it has none.
const json& part_of(const json& form, const char* word) {
  static const json none;
  const auto found = form.find(word);
  return found == form.end() ? none : *found;
}

using Holds = std::function<bool(const json&)>;

std::size_t length(const json& value) {
  return value.is_string() ? value.get_ref<const std::string&>().size() : value.size();
}

Holds is_of_type(const std::string& type) {
  if (type == "object") return [](const json& value) { return value.is_object(); };
  if (type == "array") return [](const json& value) { return value.is_array(); };
  if (type == "string") return [](const json& value) { return value.is_string(); };
  if (type == "integer") return [](const json& value) { return value.is_number_integer(); };
  if (type == "number") return [](const json& value) { return value.is_number(); };
  if (type == "boolean") return [](const json& value) { return value.is_boolean(); };
  if (type == "null") return [](const json& value) { return value.is_null(); };
  throw std::logic_error("a schema asks for an unknown type " + type);
}

// What a word of a schema asks of a value by itself; nothing, where it asks for none or says what the
// value's parts are.
Holds asked_by(const std::string& word, const json& of) {
  if (word == "type") return is_of_type(of.get<std::string>());
  if (word == "const") return [of](const json& value) { return value == of; };
  if (word == "enum") {
    return [of](const json& value) { return std::ranges::find(of, value) != of.end(); };
  }
  if (word == "minLength" || word == "minItems") {
    return [n = of.get<std::size_t>()](const json& value) { return length(value) >= n; };
  }
  if (word == "maxLength" || word == "maxItems") {
    return [n = of.get<std::size_t>()](const json& value) { return length(value) <= n; };
  }
  if (word == "minimum") return [of](const json& value) { return value >= of; };
  if (word == "maximum") return [of](const json& value) { return value <= of; };
  if (word == "pattern") {
    return [form = std::regex(of.get<std::string>())](const json& value) {
      return value.is_string() && std::regex_match(value.get_ref<const std::string&>(), form);
    };
  }
  constexpr std::array known{
      "$schema", "$defs", "title", "description", "required", "properties", "additionalProperties",
      "items",   "anyOf", "$ref"};
  if (std::ranges::find(known, word) == known.end()) {
    throw std::logic_error("a schema has an unknown word " + word);
  }
  return {};
}

}  // namespace

class JsonSchema::Forms {
 public:
  explicit Forms(json schema) : schema_(std::move(schema)), whole_(&made_of(schema_)) {}

  std::string wrong_with(const json& document) const {
    return wrong_with(document, *whole_, Place{});
  }

 private:
  // Where a value is in the document; as text only if something is wrong with it.
  struct Place {
    const Place* above = nullptr;
    enum { whole, field, item, alternative } kind = whole;
    std::string_view name = {};
    std::size_t index = 0;

    std::string path() const {
      const std::string before = above == nullptr ? "" : above->path();
      if (kind == field) return before + (before.empty() ? "" : ".") + std::string(name);
      if (kind == item) return before + "[" + std::to_string(index) + "]";
      if (kind == alternative) return before + " (" + std::string(name) + ")";
      return before;
    }
    std::string named() const {
      const std::string text = path();
      return text.empty() ? "it" : text;
    }
  };

  // A schema, or a part of one.
  struct Form {
    std::vector<Holds> asked;
    std::string expected = "an object";
    std::vector<std::string> required;
    std::map<std::string, const Form*, std::less<>> fields;
    const Form* others = nullptr;  // of fields that it does not name
    bool allows_others = true;
    const Form* items = nullptr;
    std::vector<const Form*> alternatives;
    std::string name;  // that its field "name" must have
  };

  const Form& made_of(const json& says);
  const Form& referred_to(const std::string& path);
  void make_fields(const json& says, Form& form);

  static std::string wrong_with(const json& value, const Form& form, const Place& place);
  static std::string wrong_with_fields(const json& value, const Form& form, const Place& place);
  static std::string wrong_with_any(const json& value, const Form& form, const Place& place);
  static std::string wrong_with_meant(const json& value, const Form& form, const Place& place);

  json schema_;
  std::deque<Form> all_;
  std::map<std::string, const Form*> referred_;  // by what "$ref" says
  const Form* whole_;
};

// What "#/..." refers to.
const JsonSchema::Forms::Form& JsonSchema::Forms::referred_to(const std::string& path) {
  const auto [at, is_new] = referred_.emplace(path, nullptr);
  if (is_new) at->second = &made_of(schema_.at(json::json_pointer(path.substr(1))));
  if (at->second == nullptr) throw std::logic_error("a schema refers to itself by " + path);
  return *at->second;
}

const JsonSchema::Forms::Form& JsonSchema::Forms::made_of(const json& says) {
  if (says.contains("$ref")) return referred_to(says.at("$ref").get<std::string>());
  Form& form = all_.emplace_back();
  for (const auto& [word, of] : says.items()) {
    if (Holds holds = asked_by(word, of)) form.asked.push_back(std::move(holds));
  }
  form.expected = says.value("description", form.expected);
  make_fields(says, form);
  if (says.contains("items")) form.items = &made_of(says.at("items"));
  for (const json& one : part_of(says, "anyOf")) form.alternatives.push_back(&made_of(one));
  return form;
}

void JsonSchema::Forms::make_fields(const json& says, Form& form) {
  form.required = says.value("required", form.required);
  for (const auto& [field, of] : part_of(says, "properties").items()) {
    form.fields.emplace(field, &made_of(of));
    if (field == "name" && of.contains("const")) form.name = of.at("const").get<std::string>();
  }
  const json& others = part_of(says, "additionalProperties");
  form.allows_others = others != json(false);
  if (others.is_object()) form.others = &made_of(others);
}

std::string JsonSchema::Forms::wrong_with_fields(const json& value, const Form& form,
                                                 const Place& place) {
  for (const std::string& field : form.required) {
    if (!value.contains(field)) return place.named() + " has no " + shown(field);
  }
  if (!value.is_object()) return "";
  for (const auto& [field, part] : value.get_ref<const json::object_t&>()) {
    const auto known = form.fields.find(field);
    const Form* of = known == form.fields.end() ? form.others : known->second;
    if (of != nullptr) {
      if (auto wrong = wrong_with(part, *of, {&place, Place::field, field}); !wrong.empty())
        return wrong;
    } else if (!form.allows_others) {
      std::string fields;
      for (const auto& [name, any] : form.fields) fields += (fields.empty() ? "" : ", ") + name;
      return place.named() + " has a field " + shown(field) + "; known: " + fields;
    }
  }
  return "";
}

// Of alternatives that their names tell apart: what is wrong with the one that is meant.
std::string JsonSchema::Forms::wrong_with_meant(const json& value, const Form& form,
                                                const Place& place) {
  std::string names;
  for (const Form* one : form.alternatives) {
    if (value.at("name") == one->name)
      return wrong_with_fields(value, *one, {&place, Place::alternative, one->name});
    names += (names.empty() ? "" : ", ") + one->name;
  }
  return place.path() + ".name is " + shown(value.at("name")) + "; expected one of " + names;
}

std::string JsonSchema::Forms::wrong_with_any(const json& value, const Form& form,
                                              const Place& place) {
  if (!form.alternatives.front()->name.empty()) return wrong_with_meant(value, form, place);
  for (const Form* one : form.alternatives) {
    if (wrong_with(value, *one, place).empty()) return "";
  }
  return place.named() + " is " + shown(value) + "; expected " + form.expected;
}

std::string JsonSchema::Forms::wrong_with(const json& value, const Form& form, const Place& place) {
  for (const Holds& holds : form.asked) {
    if (!holds(value)) return place.named() + " is " + shown(value) + "; expected " + form.expected;
  }
  if (auto wrong = wrong_with_fields(value, form, place); !wrong.empty()) return wrong;
  if (!form.alternatives.empty()) return wrong_with_any(value, form, place);
  if (form.items == nullptr || !value.is_array()) return "";
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (auto wrong = wrong_with(value[i], *form.items, {&place, Place::item, {}, i});
        !wrong.empty()) {
      return wrong;
    }
  }
  return "";
}

JsonSchema::JsonSchema(std::string_view text)
    : forms_(std::make_shared<const Forms>(json::parse(text))) {}

std::string JsonSchema::wrong_with(const json& document) const {
  return forms_->wrong_with(document);
}

}  // namespace plumb::bounds
