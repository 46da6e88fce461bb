// model/rank/arrival.hpp: what has come to a rank from others of a group.
//
// TESTED   tests/model/arrivals_test.cpp
#pragma once

#include <cstddef>
#include <string_view>

#include "model/sees.hpp"

namespace plumb::model {

enum class Way { sum, max, gather, exchange, message };

// `axis`: of the group, as a mesh names it; `from`: the rank of the group that sent it, -1 where all
// did. Sums and largest values are (1, n); what was gathered lies in the order of the ranks.
struct Arrival {
  Way way;
  std::string_view axis;
  int from;
  std::size_t rows, cols;
};

}  // namespace plumb::model
