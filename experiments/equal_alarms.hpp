// experiments/equal_alarms.hpp: what rules of sizes would see if each accused no more healthy runs
// than the default rules do: rows keep how far a run is from each verdict, so that a rule's margin is
// a threshold that can be moved afterwards.
//
// TESTED   tests/experiments/equal_alarms_test.cpp
#pragma once

#include <set>
#include <string>
#include <vector>

#include "experiments/said.hpp"
#include "experiments/sees.hpp"
#include "experiments/table.hpp"

namespace plumb::experiments {

// One trial under one rule.
struct Judgement {
  bool structure = false, detected = false, blamed = false, accused = false;
  bool structure_blames = false;                          // where the bug bites
  double healthy = 0, broken = 0, before = 0, there = 0;  // as Standing, of both runs

  // What the rule finds or structure does; blamed where the bug bites. The default rules have
  // structure's blame already.
  bool found() const { return detected || structure; }
  bool blamed_with_structure(bool by_default) const {
    return structure && !by_default ? structure_blames : blamed;
  }
};

// The cells of a row that judgements are made from, after the key and `rule`, and their names. Ratios
// are those under a margin of 1.
extern const std::vector<std::string> columns_of_judgements;
Table::Row cells_of(const std::string& rule, const Trial& trial);

// What a rule has for a margin as it is given: a factor of its tolerance.
double given_margin(const std::string& rule);

// Keys of runs, the first `keys` cells, in which structure alone blames where the bug bites.
std::set<Table::Row> blamed_by_structure(const Table& rows, std::size_t keys);
Judgement judgement_of(const Table& rows, const Table::Row& row, const std::set<Table::Row>& blames,
                       std::size_t keys);

// The same under another margin.
Judgement at_margin(Judgement judgement, double margin);
std::size_t accused_of(const std::vector<Judgement>& all);
// The least margin at which no more than `allowed` healthy runs are accused. Infinite: there is none.
double margin_for(const std::vector<Judgement>& all, std::size_t allowed);

}  // namespace plumb::experiments
