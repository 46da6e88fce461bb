// bounds/collective.hpp: how ranks add up what each of them has, and where that loses bits.
//
//   ring         element by element around the ring, each running sum rounded to the wire format;
//                elements lie in as many equal chunks as there are ranks, chunk c begins at rank
//                (c + rotation) modulo ranks. Without a rotation: whichever it is
//   tree         halves of the ranks added, and so down to single ranks; each sum rounded to the
//                wire
//   rank_order   FP32 sums in rank order, rounded to the wire once
//   any_order    FP32 sums (or wider) in whatever order, rounded to the wire once: a switch
//
// In each, what a rank sends is rounded to the wire first. reduce_scatter makes the same sums and
// keeps a slice of them. NCCL's ring and tree do so; NVLink's switch is any_order.
//
// TESTED   tests/bounds/operations/all_reduce_test.cpp, tests/bounds/machine_test.cpp
// SOURCES  theory.md D5; bounds/SOURCES.md [NCCL]
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "bounds/sees.hpp"
#include "number/format.hpp"

namespace plumb::bounds {

struct Collective {
  enum class Algorithm { ring, tree, rank_order, any_order } algorithm = Algorithm::ring;
  int ranks = 1;
  Format wire = fp32;
  std::optional<int> rotation;  // of ring

  // Throws std::invalid_argument with a sentence if this is no collective.
  void check() const;
};

inline constexpr std::array algorithm_names{"ring", "tree", "rank_order", "any_order"};
// Returns the algorithm of that name, or nothing.
std::optional<Collective::Algorithm> find_algorithm(std::string_view name);

}  // namespace plumb::bounds
