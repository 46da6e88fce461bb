// bounds/machine_card.hpp: a machine's card that somebody wrote, held against
// bounds/machine-card.schema.json before it is read. docs/machine-cards.md explains the fields.
//
// The schema is the one list of facts and of the values that they may have: a new fact is a line of
// its "anyOf" and a row of the page. Of JSON Schema the words that it uses are understood; another
// word in it is a failure, so that none is passed over.
//
// TESTED   tests/bounds/machine_card_test.cpp (every card of the program fits, too)
#pragma once

#include <string>
#include <string_view>

#include "bounds/machine.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

inline constexpr std::size_t longest_card = 65536;  // bytes

// Returns what is wrong with the text of a card, in one sentence; empty: nothing.
std::string wrong_with_card(std::string_view text);

// Reads a card from `name`, a file or whatever failures shall call it. Throws Failure with one
// sentence.
Machine machine_from_card(const std::string& name, std::string_view text);

// The text of a card, a fact a line.
std::string text_of(const Machine& machine);

}  // namespace plumb::bounds
