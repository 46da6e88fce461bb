// injectors/generic.hpp: faults that nobody reported: at every joint, each kind of wrong answer that
// its type allows. Made by templates over model/joints/all.inc, so that a new joint has its
// faults at once.
//
//   yes or no                not: the other answer
//   a factor                 twice
//   a format                 coarser: BF16 for wider ones, E5M2 for BF16 and shorter ones
//   a rank or a micro-batch  other: 0, or 1 for 0
//   a place                  zero
//   places                   swapped: the first and the last change places
//   a slice or a stage       short: one less at its end
//   numbers                  bit (one of the middle number), stale (what the same rank was given
//                            there before), zeros, twice, swapped (halves change places), shifted
//                            (by one place), coarse (E5M2)
//
// A fault is planted wherever its joint is asked: of all ranks, layers and micro-batches. Where
// numbers are whole (choices of experts, labels), only kinds that leave them so.
//
// TESTED   tests/experiments/generic_test.cpp
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "injectors/sees.hpp"
#include "model/joints/joints.hpp"

namespace plumb::injectors {

struct GenericFault {
  std::string joint, kind;  // joint: subject.name
  std::function<void(Joints&)> plant;
  std::string id() const { return joint + "/" + kind; }
};

// Of every joint, in the order of all.inc.
std::vector<GenericFault> generic_faults();

// The kinds of faults of numbers. `touch` changes x in place; `before`: what this rank was given at
// the same place the last time, empty at first, for the fault's own use.
struct Corruption {
  std::string_view kind;
  void (*touch)(std::span<float> x, std::vector<float>& before);
  bool keeps_whole_numbers;
};
std::span<const Corruption> corruptions();

}  // namespace plumb::injectors
