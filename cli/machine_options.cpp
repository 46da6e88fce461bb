#include "cli/machine_options.hpp"

#include <map>

#include "number/words.hpp"
#include "probe/machine_products.hpp"
#include "trace/judge/named.hpp"

namespace plumb::cli {

void MachineOptions::add_to(CLI::App& verb, const std::string& modes) {
  verb.add_option("--machine", machine,
                  "machine card: " + listed(machine_ids()) + ", or a FILE.json")
      ->capture_default_str();
  verb.add_option("--mode", mode, modes)->capture_default_str();
}

ReplayOptions replay_options(const MachineOptions& on, double false_alarm) {
  return {&machine_from(on.machine), mode_from(on.mode), false_alarm};
}

const Multiply* multiply_on(const Machine& machine) {
  static std::map<std::string, std::optional<Multiply>> all;
  const std::optional<Multiply>& of = all[machine.id] = products_on(machine);
  return of ? &*of : nullptr;
}

const Machine& machine_from(const std::string& id) {
  static std::map<std::string, Machine> read;  // each once
  if (const Machine* card = is_card_file(id) ? nullptr : find_machine(id)) return *card;
  const auto known = read.find(id);
  return known != read.end() ? known->second : read.emplace(id, machine_named(id)).first->second;
}

Mode mode_from(const std::string& name) { return mode_named(name); }

}  // namespace plumb::cli
