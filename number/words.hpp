// number/words.hpp: names that a user types, what is said of one that nobody knows, and how many
// there are of what.
// TESTED   tests/number/words_test.cpp
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "number/outcome.hpp"

namespace plumb {

// "a, b, c"
std::string listed(const std::vector<std::string>& names);

// The known name that was probably meant: but for capitals the same, a mistyped letter away (two
// from six letters on, three from twelve), or the only one that begins so. Empty if there is none.
std::string probably_meant(std::string_view word, const std::vector<std::string>& known);

// "unknown bug 'x'; did you mean y?", or where none is near "unknown bug 'x'; known: a, b, c".
std::string unknown(std::string_view kind, std::string_view word,
                    const std::vector<std::string>& known);

// "1 row", "2 rows"
std::string how_many(std::size_t n, const std::string& one, const std::string& many = "");

// Digits that show how two numbers differ: six to 17.
int digits_to_tell(double a, double b);

}  // namespace plumb
