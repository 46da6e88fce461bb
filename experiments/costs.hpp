// experiments/costs.hpp: what a bug costs who trains on, of rows that hold the curves of runs with bugs
// and of healthy runs of the same model over the same data.
//
// A run *tells* if a person who compares its reported curve with those of the healthy ones sees it
// from some point on to the end (experiments/curves.hpp), for a tenth of the run at least. It *costs*
// something if the model that it made is worse by a right step's loss than those of the healthy runs
// are, by more than one run in a hundred of these would be (Student's t, one-sided).
//
// ASSUMES  ends of healthy runs are normal and independent; runs with the same bits count once.
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
  bool operator==(const Learned&) const = default;
};

// As they stand in the rates: harmless; visible (costs, and its curve tells in the first half, while
// something can be saved); late (tells in the second half); silent (costs and never tells); alarming
// (tells and costs nothing).
enum class CostKind { harmless, visible, late, silent, alarming };
std::string_view name_of(CostKind kind);

struct Cost {
  std::size_t healthy = 0;           // runs with bits of their own
  double loss = 0;                   // above the mean of healthy ends
  double tolerance = 0;              // of that
  std::optional<std::size_t> tells;  // from this point on
  CostKind kind = CostKind::harmless;
};
// None: fewer than two of the healthy runs have bits of their own.
std::optional<Cost> cost_of(const Learned& run, const std::vector<Learned>& healthy);

// A row whose loss is "-" is of a run whose ranks could not go on.
std::vector<std::string> columns_of_costs();
// Healthy runs are judged, too, each by those with other bits: how often is one said to cost something?
Table rates_of_costs(const Table& rows);

}  // namespace plumb::experiments
