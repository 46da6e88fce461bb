// What do probes find out of an arithmetic from its results alone, and is any of it wrong? Devices
// that are not there, whose facts are hidden, and the backends of this machine.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/experiment.hpp"
#include "kernels/backend.hpp"
#include "probe/calibrate.hpp"
#include "probe/devices.hpp"

namespace plumb::experiments {
namespace {

constexpr unsigned devices = 300;  // times the effort
constexpr std::size_t longest_of_devices = 200, longest_of_backends = 1024;

std::string joined(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& each : all) text += (text.empty() ? "" : "; ") + each;
  return text.empty() ? "-" : text;
}

// Which changed facts of the card validation does not see, of how many.
struct Unseen {
  std::size_t changed = 0;
  std::vector<std::string> unseen;
};
Unseen unseen_changes(const probe::Subject& subject, const Machine& card, std::size_t longest) {
  Unseen result;
  for (const ChangedCard& other : with_one_fact_changed(card)) {
    ++result.changed;
    if (!is_noticed(subject, other.card, longest, 77)) result.unseen.push_back(other.fact);
  }
  return result;
}

// Products, sums and softmaxes together.
struct Held {
  std::size_t elements, outside;
  double worst;
};
Held all_held(const Validation& v) {
  Held all{v.elements, v.outside, v.worst};
  for (const HeldTables& tables : v.tables) {
    all.elements += tables.elements;
    all.outside += tables.outside;
    all.worst = std::max(all.worst, tables.worst);
  }
  return all;
}

std::vector<std::string> cells_of(const probe::Subject& subject, const Calibration& found,
                                  std::size_t longest) {
  std::vector<std::string> facts, silent;
  for (const Fact& fact : found.card.facts) facts.push_back(fact.name + " = " + fact.value);
  for (const Unknown& fact : found.unknown) silent.push_back(fact.fact);
  const Validation& v = found.validation;
  const bool bounded = v.refused.empty();
  const auto [elements, outside, worst] = all_held(v);
  const Unseen changes = bounded ? unseen_changes(subject, found.card, longest) : Unseen{};
  const std::string tree =
      found.trees.empty() ? "-" : probe::text_of(found.trees.rbegin()->second, 16);
  return {joined(facts),
          joined(silent),
          tree,
          bounded ? std::to_string(elements) : "-",
          bounded ? std::to_string(outside) : "-",
          bounded ? cell(worst) : "-",
          v.moments > 0 ? cell(v.moments) : "-",
          v.equal > 0 ? cell(v.equal) : "-",
          std::to_string(changes.changed),
          std::to_string(changes.changed - changes.unseen.size()),
          joined(changes.unseen)};
}

void run_devices(Table& rows, const Effort& effort) {
  for (unsigned seed = 1; seed <= devices * static_cast<unsigned>(effort.scale); ++seed) {
    if (effort.out_of_time()) return;
    const HiddenDevice hidden = drawn_device(seed);
    std::vector<std::string> row{fmt::format("device {}", seed), std::string(hidden.input.name)};
    if (rows.settled(row)) continue;
    const probe::Subject subject = all_of(hidden);
    CalibrateOptions options;
    options.longest = longest_of_devices;
    const Calibration found = calibrate(subject, options);
    std::size_t known = 0;
    std::vector<std::string> wrong;
    auto recovered = held_against(hidden, found);
    if (!hidden.device.unit) {
      for (const Recovered& sums : sums_held_against(hidden, found)) recovered.push_back(sums);
    }
    for (const Recovered& fact : recovered) {
      known += fact.found.empty() ? 0 : 1;
      if (fact.wrong) wrong.push_back(fact.fact + " is " + fact.hidden);
    }
    row.insert(row.end(), {hidden.text(), std::to_string(recovered.size()), std::to_string(known),
                           joined(wrong)});
    const auto rest = cells_of(subject, found, longest_of_devices);
    row.insert(row.end(), rest.begin(), rest.end());
    rows.add(row);
    effort.progress(row[0] + ", " + row[2]);
  }
}

void run_backends(Table& rows, const Effort& effort) {
  for (const Backend* backend : all_backends()) {
    if (!backend->usable_here()) continue;
    for (const Format& input : {fp32, bf16}) {
      if (effort.out_of_time()) return;
      std::vector<std::string> row{std::string(backend->name), std::string(input.name)};
      if (rows.settled(row)) continue;
      const probe::Subject subject = subject_of(*backend, input);
      CalibrateOptions options;
      options.longest = longest_of_backends;
      const Calibration found = calibrate(subject, options);
      row.insert(row.end(), {"-", "-", "-", "-"});
      const auto rest = cells_of(subject, found, longest_of_backends);
      row.insert(row.end(), rest.begin(), rest.end());
      rows.add(row);
      effort.progress(row[0] + " " + row[1]);
    }
  }
}

void run(Table& rows, const Effort& effort) {
  run_backends(rows, effort);
  run_devices(rows, effort);
}

}  // namespace

extern const Experiment calibrate_hardware{
    .name = "calibrate-hardware",
    .question = "What do probes find out of an arithmetic from its results alone, and is it right?",
    .columns = {"subject", "format", "hidden", "facts", "known", "wrong", "found", "not_known",
                "tree", "elements", "outside", "worst", "z_rms", "equal", "changed", "noticed",
                "not_noticed"},
    .keys = 2,
    .run = run,
    .trained_states = "none",
};

}  // namespace plumb::experiments
