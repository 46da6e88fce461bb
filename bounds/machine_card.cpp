#include "bounds/machine_card.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "bounds/json_schema.hpp"
#include "number/outcome.hpp"

namespace plumb::bounds {

// Made by embed() from bounds/machine-card.schema.json.
std::string_view machine_card_schema();

namespace {

using nlohmann::json;

const JsonSchema& schema() {
  static const JsonSchema parsed(machine_card_schema());
  return parsed;
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
  const std::string wrong = schema().wrong_with(card);
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
