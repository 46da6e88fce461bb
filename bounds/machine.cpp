#include "bounds/machine.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "number/outcome.hpp"

namespace plumb::bounds {

// Made by embed_cards() from bounds/machines/*.json.
std::span<const std::pair<std::string_view, std::string_view>> machine_cards();

namespace {

constexpr std::array provenances{"published", "measured", "assumed"};
constexpr std::array roundings{"nearest_even", "toward_zero", "away", "stochastic"};

Provenance provenance_of(const std::string& name) {
  for (std::size_t i = 0; i < provenances.size(); ++i) {
    if (name == provenances[i]) return static_cast<Provenance>(i);
  }
  throw Failure("provenance '" + name + "' is none of published, measured, assumed");
}

// The collective of a card. Throws Failure with a sentence for each mistake.
Collective collective_of(const nlohmann::json& card) {
  constexpr std::array known{"algorithm", "ranks", "wire", "rotation", "provenance", "source"};
  for (const auto& [field, value] : card.items()) {
    if (std::ranges::find(known, field) != known.end()) continue;
    throw Failure("the collective has a field '" + field +
                  "'; known: algorithm, ranks, wire, rotation, provenance, source");
  }
  for (const char* field : {"algorithm", "ranks", "wire", "provenance", "source"}) {
    if (!card.contains(field)) throw Failure("the collective has no '" + std::string(field) + "'");
  }
  const auto whole = [&](const char* field) {
    if (card.at(field).is_number_integer()) return card.at(field).get<int>();
    throw Failure("the collective's " + std::string(field) +
                  " is no whole number: " + card.at(field).dump());
  };
  const auto name = card.at("algorithm").get<std::string>();
  const auto algorithm = find_algorithm(name);
  if (!algorithm) {
    throw Failure("the collective's algorithm '" + name +
                  "' is none of ring, tree, rank_order, any_order");
  }
  const auto wire = card.at("wire").get<std::string>();
  const Format* format = find_format(wire);
  if (format == nullptr) throw Failure("the collective's wire '" + wire + "' is no format");
  provenance_of(card.at("provenance").get<std::string>());
  if (card.at("source").get<std::string>().empty()) {
    throw Failure("the collective does not say where it is known from: its source is empty");
  }
  Collective collective{*algorithm, whole("ranks"), *format, {}};
  if (card.contains("rotation")) collective.rotation = whole("rotation");
  collective.check();
  return collective;
}

std::optional<double> parse_number(const std::string& text) {
  double value = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (wrong != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

bool says(const Machine& machine, std::string_view name, std::string_view value) {
  const Fact* fact = machine.fact(name);
  return fact != nullptr && fact->value == value;
}

// The order that a fact names, with the rounding of the card; nothing where it says "any".
std::optional<Order> order_in(const Machine& machine, std::string_view name) {
  const Fact* known = machine.fact(name);
  if (known == nullptr || known->value == "any" || !says(machine, "accumulator", "fp32")) return {};
  std::optional<Order> order = parse_order(known->value);
  if (!order || (order->up_to > 0 && name == "order")) {
    throw Failure("machine card '" + machine.id + "': " + known->name + " = '" + known->value +
                  "'; expected any, sequential, pairwise or e.g. 'blocked 128'");
  }
  for (std::size_t i = 0; i < roundings.size(); ++i) {
    if (says(machine, "rounding", roundings[i])) order->rounding = static_cast<Rounding>(i);
  }
  return order;
}

}  // namespace

std::string_view name_of(Provenance provenance) {
  return provenances[static_cast<std::size_t>(provenance)];
}

std::string_view name_of(Rounding rounding) {
  return roundings[static_cast<std::size_t>(rounding)];
}

const Fact* Machine::fact(std::string_view name) const {
  for (const Fact& f : facts) {
    if (f.name == name) return &f;
  }
  return nullptr;
}

bool Machine::rounds_to_nearest() const {
  return says(*this, "accumulator", "fp32") && says(*this, "rounding", "nearest_even");
}

bool Machine::draws_results() const { return says(*this, "results", "stochastic"); }

Arithmetic Machine::arithmetic() const {
  Arithmetic is;
  const auto number = [&](const char* name, double silent, double least) {
    const Fact* known = fact(name);
    if (known == nullptr) return silent;
    const std::optional<double> value = parse_number(known->value);
    if (value && *value >= least && *value <= 1e6) return *value;
    throw Failure("machine card '" + id + "': " + name + " = '" + known->value +
                  "'; expected a number from " + (least == 0 ? "0" : "0.5") + " to 1e6");
  };
  // Which of two words? The first where the card is silent.
  const auto word = [&](const char* name, const char* silent, const char* other) {
    const Fact* known = fact(name);
    if (known == nullptr || known->value == silent) return true;
    if (known->value == other) return false;
    throw Failure("machine card '" + id + "': " + name + " = '" + known->value + "'; expected " +
                  other + " or " + silent);
  };
  is.exp_ulp = number("exp_ulp", 4, 0.5);
  is.exp_ulp_per_unit = number("exp_ulp_per_unit", fact("exp_ulp") == nullptr ? 1.2 : 0, 0);
  is.log_ulp = number("log_ulp", 4, 0.5);
  is.erf_ulp = number("erf_ulp", 4, 0.5);
  is.erf_absolute = number("erf_absolute", fact("erf_ulp") == nullptr ? 0x1p-21 : 0, 0);
  is.tanh_ulp = number("tanh_ulp", 6, 0.5);
  is.divide_ulp = number("divide_ulp", 2.5, 0.5);
  is.sqrt_ulp = number("sqrt_ulp", 3, 0.5);
  is.flushes = word("subnormals", "flushed", "kept");
  is.fuses = !word("fma", "any", "as_written");
  return is;
}

std::optional<Order> Machine::order() const { return order_in(*this, "order"); }

std::optional<Order> Machine::order_of(std::string_view operation, std::size_t terms) const {
  const std::string name = "order_" + std::string(operation);
  if (fact(name) == nullptr) return order();
  const std::optional<Order> known = order_in(*this, name);
  return known && known->knows(terms) ? known : std::nullopt;
}

Machine parse_machine(std::string_view id, std::string_view text) {
  try {
    const nlohmann::json card = nlohmann::json::parse(text);
    Machine machine{std::string(id), card.at("title").get<std::string>(), {}, {}};
    for (const auto& fact : card.at("facts")) {
      machine.facts.push_back({fact.at("name").get<std::string>(),
                               fact.at("value").get<std::string>(),
                               provenance_of(fact.at("provenance").get<std::string>()),
                               fact.at("source").get<std::string>()});
    }
    if (card.contains("collective")) {
      const auto& collective = card.at("collective");
      machine.collective = collective_of(collective);
      machine.collective_provenance = provenance_of(collective.at("provenance"));
      machine.collective_source = collective.at("source");
    }
    return machine;
  } catch (const std::exception& wrong) {
    throw Failure("machine card '" + std::string(id) + "': " + wrong.what() +
                  "\nHINT: bounds/machines/ieee.json shows the fields");
  }
}

const std::vector<Machine>& all_machines() {
  static const std::vector<Machine> machines = [] {
    std::vector<Machine> list;
    for (const auto& [id, text] : machine_cards()) list.push_back(parse_machine(id, text));
    return list;
  }();
  return machines;
}

const Machine* find_machine(std::string_view id) {
  for (const Machine& machine : all_machines()) {
    if (machine.id == id) return &machine;
  }
  return nullptr;
}

}  // namespace plumb::bounds
