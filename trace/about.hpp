// trace/about.hpp: what a producer says of a tensor beside its values. A promise says more, and
// better; traces without one have this, as far as their producer tells it.
//
// TESTED   tests/trace/order_test.cpp, tests/trace/format2_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trace/graph.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

enum class Role {
  value,     // computed: two sound runs may differ by rounding
  given,     // weights before the step, data, masks: equal in all runs
  decision,  // a choice, as that of experts: a rounding may turn it, so its size says nothing
};

// One operation of the catalogue, by which its producer says that a tensor was made. `inputs` are ids
// in the order of the operation's schema.
struct MadeBy {
  std::string op;
  std::vector<std::string> inputs = {};
  std::size_t output = 0;  // which of its outputs
  Attributes attributes = {};
  int parts = 1;                    // of this run: slices of its sum that other ranks made
  std::optional<Format> wire = {};  // they travel in; absent: in the tensor's own
  bool operator==(const MadeBy&) const = default;
};

struct About {
  std::string own_name = {};            // the producer's, where it is another one
  std::vector<std::size_t> shape = {};  // of the whole, with all of its dimensions
  Role role = Role::value;
  std::optional<std::uint64_t> order = {};  // of execution: what is made later has a larger number
  std::optional<Phase> phase = {};
  std::optional<int> micro_batch = {};
  std::optional<std::vector<std::string>> from = {};  // all that it was made from
  std::optional<MadeBy> made_by = {};
  bool operator==(const About&) const = default;
};
using Abouts = std::map<std::string, About>;  // by canonical id

}  // namespace plumb::trace
