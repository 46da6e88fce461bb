#include "trace/judge/named.hpp"

#include "bounds/machine_card.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"
#include "trace/store/read_file.hpp"

namespace plumb::trace {

std::vector<std::string> machine_ids() {
  std::vector<std::string> ids;
  for (const Machine& machine : all_machines()) ids.push_back(machine.id);
  return ids;
}

bool is_card_file(const std::string& name) {
  return name.find('/') != name.npos || name.ends_with(".json");
}

Machine machine_named(const std::string& name) {
  if (!is_card_file(name)) {
    if (const Machine* card = find_machine(name)) return *card;
    throw Failure(unknown("machine", name, machine_ids()));
  }
  const Outcome<std::string> text = read_file(name, longest_card);
  if (text) return machine_from_card(name, *text);
  throw Failure("machine card '" + name + "' " + text.error().detail +
                "; see docs/machine-cards.md");
}

Mode mode_named(const std::string& name) {
  for (const Mode mode : {Mode::deterministic, Mode::probabilistic, Mode::moments}) {
    if (name == name_of(mode)) return mode;
  }
  throw Failure(unknown("mode", name, {"deterministic", "probabilistic", "moments"}));
}

const Format& format_named(const std::string& name) {
  std::vector<std::string> known;
  for (const Format& format : all_formats) {
    if (format != fp64) known.emplace_back(format.name);
  }
  if (const Format* format = find_format(name); format != nullptr && *format != fp64)
    return *format;
  throw Failure(unknown("format", name, known));
}

}  // namespace plumb::trace
