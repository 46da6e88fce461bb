// trace/finding.hpp: one thing that is wrong with a run, or that could not be judged.
#pragma once

#include <string>

#include "trace/sees.hpp"

namespace plumb::trace {

struct Finding {
  std::string id;  // canonical id of the tensor
  std::string
      statistic;       // structure, norm, row, element, mismatch, scale, replay, or a rule's name
  double ratio = 0;    // error / tolerance; above 1 is a finding (infinite where no size applies)
  std::string detail;  // one sentence with coordinates and numbers
};

}  // namespace plumb::trace
