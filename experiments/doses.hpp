// experiments/doses.hpp: the smallest fault that a rule sees, of rows that hold what each rule says of
// faults of many sizes and of healthy runs of the same model: at its given margin, at the margin at
// which it accuses no more healthy runs than the default rules do, and over all margins.
//
// TESTED   tests/experiments/doses_test.cpp
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/sees.hpp"
#include "experiments/table.hpp"

namespace plumb::experiments {

// The name of a healthy run in the column `fault`.
inline constexpr const char* no_fault = "none";
// The rules of sizes whose ratios rows have, each in a column of its name.
extern const std::vector<std::string> rules_of_sizes;

// What a rule says of one run: its error over its tolerance at a margin of 1, as a rank.
struct Ranked {
  bool accuses = false;  // at the margin that is asked about
  double ratio = 0;
};
using BySize = std::map<double, Ranked>;  // of one fault in one batch

// The smallest size from which upwards a rule accuses every run. None: it misses the largest.
std::optional<double> least_seen(const BySize& runs);

// The chance that a broken run ranks above a healthy one, ties by half: the area under the curve of
// detections over false alarms. 1/2: the rule knows nothing.
double area(const std::vector<Ranked>& broken, const std::vector<Ranked>& healthy);

// The middle one; of two the geometric mean. None where the middle one is none.
std::optional<double> middle(std::vector<std::optional<double>> sizes);

// Columns of the rows, after them the rates: what stands in smallest-fault-rates.csv.
std::vector<std::string> columns_of_doses();
Table rates_of_doses(const Table& rows);

}  // namespace plumb::experiments
