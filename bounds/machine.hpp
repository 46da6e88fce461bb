// bounds/machine.hpp: what is known about a machine's arithmetic, and how we know it.
//
// A card is one JSON file of bounds/machines: an id, a sentence, facts. It may have a "collective",
// how its ranks add up: algorithm, ranks, wire, provenance, source, and where it is known rotation
// (bounds/collective.hpp). The derived tolerances hold on machines whose `accumulator` rounds to
// nearest; is_ieee() says whether a card claims so.
//
// TESTED   tests/bounds/machine_test.cpp
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bounds/collective.hpp"
#include "bounds/sees.hpp"
#include "number/format.hpp"
#include "number/mma.hpp"
#include "number/order.hpp"

namespace plumb::bounds {

// How a fact is known: from the vendor or the literature; from a probe; or taken on trust.
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
  std::optional<Collective> collective = {};

  // Returns the fact of that name, or nullptr.
  const Fact* fact(std::string_view name) const;
  // The order and rounding of its FP32 sums, if the card knows them: the facts "order" (see
  // number/order.hpp; "any" says that nothing is known) and "rounding". Throws Failure if a fact
  // names no order or no rounding.
  std::optional<Order> order() const;
  // Does the card claim nearest-even accumulation in FP32, subnormals kept, exp and log within one
  // ulp?
  bool is_ieee() const;
  // The matrix unit for inputs of a format: the fact "mma_FORMAT", or nothing.
  std::optional<Mma> mma(const Format& input) const;
};

// Throws Failure, naming the card and the field, if the text is no card.
Machine parse_machine(std::string_view id, std::string_view text);
// All embedded cards, sorted by id.
const std::vector<Machine>& all_machines();
// Returns the card of that id, or nullptr.
const Machine* find_machine(std::string_view id);

}  // namespace plumb::bounds
