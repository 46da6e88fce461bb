// paper_repro/trials.hpp: rows of paper-bugs, counted by rule.
//
// TESTED   tests/paper_repro/claims_test.cpp
#pragma once

#include <string>
#include <vector>

#include "paper_repro/claim.hpp"
#include "paper_repro/evidence.hpp"
#include "paper_repro/sees.hpp"

namespace plumb::paper_repro {

// Of one rule, over some of the trials. Structure is checked whatever the rule.
struct Trials {
  Share detected, blamed, accused;
  std::size_t bugs = 0, always = 0;  // of the paper's; and those that are detected in every trial
};
// Throws NotMeasured if none of these rows is of the rule.
Trials trials_of(const Rows& rows, const std::string& rule);

// A Markdown table of these rows, a line for each of the paper's bugs: who detects, who blames.
std::string table_by_bug(const Rows& rows, const std::vector<std::string>& rules);

}  // namespace plumb::paper_repro
