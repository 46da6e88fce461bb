// paper_repro/by_hand.hpp: the programs beside plumb that make rows of claims, and what they need.
//
// TESTED   tests/paper_repro/claims_test.cpp, tests/cli/paper_test.cpp
#pragma once

#include <string>
#include <string_view>

#include "paper_repro/sees.hpp"

namespace plumb::paper_repro {

// One sentence: how rows of a question come into a folder. Throws std::invalid_argument on a
// question that plumb experiment answers.
std::string by_hand(std::string_view question, const std::string& folder);

}  // namespace plumb::paper_repro
