// experiments/faults.hpp: faults of any size in one tensor of an otherwise healthy run.
//
// Bugs (injectors/) are wrong decisions; these are their effects, made small on purpose, to ask how
// small a fault each rule still sees. They sit in the last but one layer and in all micro-batches
// unless said. The backward pass sees the faulty forward tensors, not the fault itself.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "experiments/sees.hpp"
#include "experiments/trial.hpp"

namespace plumb::experiments {

struct Fault {
  std::string_view name;
  std::string_view tensor;  // activation, backward (a gradient of one) or weight gradient
  std::string_view kind;    // scale, row or element: how much of the tensor is wrong
  std::string_view what;    // with the meaning of `size`
  // The tensors that are wrong, given the healthy values of the same run. Absent: no fault of that
  // size exists.
  std::optional<Values> (*made)(const Training& run, const Values& healthy, double size);
};

std::span<const Fault> all_faults();
// Throws std::invalid_argument if there is none of that name.
const Fault& find_fault(std::string_view name);

}  // namespace plumb::experiments
