// paper_repro/growth.hpp: how a distance grows from layer to layer.
//
// TESTED   tests/paper_repro/growth_test.cpp
// SOURCES  bounds/SOURCES.md [NW87]
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "paper_repro/evidence.hpp"
#include "paper_repro/sees.hpp"

namespace plumb::paper_repro {

// y = a C^x, by least squares of log y over x; `low` and `high` hold C with 95 % probability. The
// errors of neighbours along x may be alike (Newey and West's variance).
struct Growth {
  double c = 1, low = 1, high = 1;
};
// Each series by its own a, one C for all: (x, y) in the order of x, y > 0; together at least four
// points. Points with y = 0 are left out. Throws std::invalid_argument if fewer are left.
Growth growth_of(const std::vector<std::vector<std::pair<double, double>>>& series);

// A cell of the experiment error-growth: runs that differ in nothing but their seed.
struct Depth {
  std::string family, weights, recipe, layout;
  int layers = 0;
  Rows rows;  // of all seeds, by layer
};
// In the order of the rows; `layout` and `layers` as given, empty and 0: all.
std::vector<Depth> depths(const Evidence& evidence, const std::string& layout, int layers = 0);

// The growth of a column over depth: towards the input (the theorem's L + 1 - l) or the output.
enum class Towards { input, output };
Growth growth_of(const Depth& depth, const std::string& column, Towards towards);

// The machine epsilon by which the paper counts: of BF16 for recipes of 8 bits, too.
double epsilon_of(const std::string& recipe);

// A Markdown table.
std::string table(const std::vector<std::string>& heading,
                  const std::vector<std::vector<std::string>>& rows);

}  // namespace plumb::paper_repro
