// bounds/machine.hpp: what is known about a machine's arithmetic, and how we know it.
//
// A card is one JSON file of bounds/machines: an id, a sentence, and facts. The derived tolerances
// hold on machines whose `accumulator` rounds to nearest; is_ieee() says whether a card claims so.
// TESTED   tests/bounds/machine_test.cpp
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumb {

// From the vendor or the literature; from a probe; or taken on trust.
enum class Provenance { published, measured, assumed };
std::string_view name_of(Provenance provenance);

struct Fact {
  std::string name;  // accumulator, exp_ulp, subnormals, ...
  std::string value;
  Provenance provenance;
  std::string source;  // citation key, or the command that measured it
};

struct Machine {
  std::string id, title;
  std::vector<Fact> facts;

  // Returns the fact of that name, or nullptr.
  const Fact* fact(std::string_view name) const;
  // Nearest-even accumulation in FP32, subnormals kept, exp and log within one ulp.
  bool is_ieee() const;
};

// Throws Failure, naming the card and the field, if the text is no card.
Machine parse_machine(std::string_view id, std::string_view text);
// All embedded cards, sorted by id.
const std::vector<Machine>& all_machines();
// Returns the card of that id, or nullptr.
const Machine* find_machine(std::string_view id);

}  // namespace plumb
