// cli/colour.hpp: colours, for a terminal alone. NO_COLOR (any text) switches them off,
// CLICOLOR_FORCE=1 on, and TERM=dumb means a terminal without.
//
// TESTED   tests/cli/colour_test.cpp
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "cli/sees.hpp"

namespace plumb::cli {

enum class Colour { good, bad, notice, heading };

// Returns the text as it is where the stream takes no colours.
std::string painted(Colour colour, std::string_view text, std::FILE* to = stdout);
// Lines of text with the words painted by which a verdict or a note begins, and with lines that end
// in a colon as headings.
std::string painted_lines(std::string_view text);

// Prints to stdout, painted.
template <class... Of>
void say(fmt::format_string<Of...> text, Of&&... of) {
  fmt::print("{}", painted_lines(fmt::format(text, std::forward<Of>(of)...)));
}

}  // namespace plumb::cli
