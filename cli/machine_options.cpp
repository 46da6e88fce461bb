#include "cli/machine_options.hpp"

#include "number/outcome.hpp"
#include "number/words.hpp"

namespace plumb::cli {
namespace {

std::vector<std::string> machine_ids() {
  std::vector<std::string> ids;
  for (const Machine& machine : all_machines()) ids.push_back(machine.id);
  return ids;
}

}  // namespace

void MachineOptions::add_to(CLI::App& verb, const std::string& modes) {
  verb.add_option("--machine", machine, "machine card: " + listed(machine_ids()))
      ->capture_default_str();
  verb.add_option("--mode", mode, modes)->capture_default_str();
}

ReplayOptions replay_options(const MachineOptions& on, double false_alarm) {
  return {&machine_from(on.machine), mode_from(on.mode), false_alarm};
}

const Machine& machine_from(const std::string& id) {
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
