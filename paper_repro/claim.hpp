// paper_repro/claim.hpp: one number or statement of the TTrace paper, and what our rows say of it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/table.hpp"
#include "paper_repro/sees.hpp"

namespace plumb::paper_repro {

struct Answer {
  std::string ours;
  bool agrees = false;
};

struct Claim {
  std::string_view id;
  std::string_view where;       // in the paper, as far as known
  std::string_view says;        // in our words
  std::string_view experiment;  // whose committed rows answer it
  std::string_view published;
  Answer (*ours)(const Table& rows);
};

std::span<const Claim* const> all_claims();

// The committed rows of an experiment, embedded in the program. Throws Failure if there are none.
Table committed_rows(std::string_view experiment);

// The claim table as Markdown: published and ours side by side.
std::string claim_table();

}  // namespace plumb::paper_repro
