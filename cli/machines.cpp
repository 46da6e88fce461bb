#include <fmt/format.h>

#include "cli/collective.hpp"
#include "cli/columns.hpp"
#include "cli/json.hpp"
#include "cli/machine_options.hpp"
#include "cli/verbs.hpp"

namespace plumb::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

void list() {
  Rows rows;
  for (const Machine& machine : all_machines()) rows.push_back({machine.id, machine.title});
  fmt::print("{}", in_columns({{}, {}}, rows));
}

void tell(const Machine& machine) {
  fmt::print("{}\n", machine.title);
  Rows rows;
  for (const Fact& fact : machine.facts) {
    rows.push_back({fact.name, fact.value, std::string(name_of(fact.provenance)), fact.source});
  }
  if (machine.collective) rows.push_back({"collective", words_of(*machine.collective), "", ""});
  fmt::print("{}", in_columns({{"fact"}, {"value"}, {"known"}, {"from"}}, rows));
}

// The names of facts of both, those of the first one first.
std::vector<std::string> facts_of(const Machine& a, const Machine& b) {
  std::vector<std::string> names;
  for (const Machine* machine : {&a, &b}) {
    for (const Fact& fact : machine->facts) {
      if (std::ranges::find(names, fact.name) == names.end()) names.push_back(fact.name);
    }
  }
  return names;
}

void differences(const Machine& a, const Machine& b) {
  const auto value = [](const Machine& machine, const std::string& name) -> std::string {
    const Fact* fact = machine.fact(name);
    return fact == nullptr ? "(silent)" : fact->value;
  };
  Rows rows;
  for (const std::string& name : facts_of(a, b)) {
    if (value(a, name) != value(b, name)) rows.push_back({name, value(a, name), value(b, name)});
  }
  const std::string of_a = a.collective ? words_of(*a.collective) : "(silent)";
  const std::string of_b = b.collective ? words_of(*b.collective) : "(silent)";
  if (of_a != of_b) rows.push_back({"collective", of_a, of_b});
  if (rows.empty()) return fmt::print("{} and {} say the same\n", a.id, b.id);
  fmt::print("{}", in_columns({{"fact"}, {a.id}, {b.id}}, rows));
}

void print_json(const std::vector<const Machine*>& machines) {
  nlohmann::json all = nlohmann::json::array();
  for (const Machine* machine : machines) {
    nlohmann::json facts = nlohmann::json::array();
    for (const Fact& fact : machine->facts) {
      facts.push_back({{"name", fact.name},
                       {"value", fact.value},
                       {"provenance", name_of(fact.provenance)},
                       {"source", fact.source}});
    }
    nlohmann::json card{{"id", machine->id}, {"title", machine->title}, {"facts", facts}};
    if (machine->collective) card["collective"] = words_of(*machine->collective);
    all.push_back(card);
  }
  print_document("plumb-machines/1", {{"machines", all}});
}

std::vector<const Machine*> those(const std::vector<std::string>& names) {
  std::vector<const Machine*> asked;
  for (const std::string& name : names) asked.push_back(&machine_from(name));
  if (!names.empty()) return asked;
  for (const Machine& machine : all_machines()) asked.push_back(&machine);
  return asked;
}

}  // namespace

void add_machines(CLI::App& app, Verb& chosen) {
  auto* verb =
      app.add_subcommand("machines", "list the machine cards; tell one; in what two differ");
  static std::vector<std::string> names;
  verb->add_option("MACHINE", names, "one or two: cards, or files that end in .json")
      ->expected(0, 2);
  static bool as_json = false;
  add_json(*verb, as_json);
  verb->callback([&chosen] {
    chosen = [] {
      const auto asked = those(names);
      if (as_json) {
        print_json(asked);
      } else if (names.empty()) {
        list();
      } else if (names.size() == 1) {
        tell(*asked[0]);
      } else {
        differences(*asked[0], *asked[1]);
      }
      return 0;
    };
  });
}

}  // namespace plumb::cli
