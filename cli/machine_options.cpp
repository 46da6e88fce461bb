#include "cli/machine_options.hpp"

#include <map>

#include "bounds/machine_card.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"
#include "trace/store/read_file.hpp"

namespace plumb::cli {
namespace {

std::vector<std::string> machine_ids() {
  std::vector<std::string> ids;
  for (const Machine& machine : all_machines()) ids.push_back(machine.id);
  return ids;
}

bool is_file(const std::string& name) {
  return name.find('/') != name.npos || name.ends_with(".json");
}

const Machine& machine_in(const std::string& file) {
  static std::map<std::string, Machine> read;  // each once
  const auto known = read.find(file);
  if (known != read.end()) return known->second;
  const Outcome<std::string> text = read_file(file, longest_card);
  if (!text)
    throw Failure("machine card '" + file + "' " + text.error().detail +
                  "; see docs/machine-cards.md");
  return read.emplace(file, machine_from_card(file, *text)).first->second;
}

}  // namespace

void MachineOptions::add_to(CLI::App& verb, const std::string& modes) {
  verb.add_option("--machine", machine,
                  "machine card: " + listed(machine_ids()) + ", or a FILE.json")
      ->capture_default_str();
  verb.add_option("--mode", mode, modes)->capture_default_str();
}

ReplayOptions replay_options(const MachineOptions& on, double false_alarm) {
  return {&machine_from(on.machine), mode_from(on.mode), false_alarm};
}

const Machine& machine_from(const std::string& id) {
  if (is_file(id)) return machine_in(id);
  if (const Machine* card = find_machine(id)) return *card;
  throw Failure(unknown("machine", id, machine_ids()));
}

Mode mode_from(const std::string& name) {
  for (const Mode mode : {Mode::deterministic, Mode::probabilistic, Mode::moments}) {
    if (name == name_of(mode)) return mode;
  }
  throw Failure(unknown("mode", name, {"deterministic", "probabilistic", "moments"}));
}

}  // namespace plumb::cli
