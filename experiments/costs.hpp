// experiments/costs.hpp: what a bug costs who trains on, of rows that hold the curves of runs with bugs
// and of healthy runs of the same model over the same data.
//
// A run *tells* if a person who compares its reported curve with those of the healthy ones sees it
// from some point on to the end (experiments/curves.hpp). It *costs* something if the model that it
// made is worse by a right step's loss than any that a healthy run made, by more than these differ.
//
// TESTED   tests/experiments/costs_test.cpp
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/curves.hpp"
#include "experiments/sees.hpp"
#include "experiments/table.hpp"

namespace plumb::experiments {

// The name of a healthy run in the column `bug`.
inline constexpr const char* healthy_run = "none";

struct Learned {
  CurveOf reported;  // loss by point
  double end = 0;    // a right step's loss of what was learnt, over unseen batches
};

// As they stand in the rates: harmless; visible (costs, and its curve tells in the first half, while
// something can be saved); late (tells in the second half); silent (costs and never tells); alarming
// (tells and costs nothing).
enum class CostKind { harmless, visible, late, silent, alarming };
std::string_view name_of(CostKind kind);

struct Cost {
  double loss = 0;                   // above the worst healthy end; negative: below
  double scatter = 0;                // of healthy ends: the largest less the smallest
  std::optional<std::size_t> tells;  // from this point on
  CostKind kind = CostKind::harmless;
};
// `healthy`: two runs at least.
Cost cost_of(const Learned& run, const std::vector<Learned>& healthy);

std::vector<std::string> columns_of_costs();
// Healthy runs are judged, too, each by the others: the rate at which healthy runs cost something.
Table rates_of_costs(const Table& rows);

}  // namespace plumb::experiments
