// paper_repro/print.hpp: claims as text.
//
// TESTED   tests/paper_repro/claims_test.cpp
#pragma once

#include <string>

#include "paper_repro/claim.hpp"
#include "paper_repro/sees.hpp"

namespace plumb::paper_repro {

// A Markdown table, a line for each claim: published and ours side by side.
std::string claim_table(const Evidence& evidence);

// All there is to say of one claim, in Markdown: how it is known, what was chosen, what the rows
// say, who made them.
std::string whole(const Claim& claim, const Evidence& evidence);

}  // namespace plumb::paper_repro
