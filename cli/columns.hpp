// cli/columns.hpp: tables whose columns are as wide as what stands in them.
//
// TESTED   tests/cli/columns_test.cpp
#pragma once

#include <string>
#include <vector>

#include "cli/sees.hpp"

namespace plumb::cli {

struct Column {
  std::string heading;   // none: the table has no line of headings
  bool numbers = false;  // at the right of its column
};

// Returns the lines of a table, `indent` blanks before each. On a terminal a last column of words
// goes on below itself where the line ends.
std::string in_columns(const std::vector<Column>& columns,
                       const std::vector<std::vector<std::string>>& rows, std::size_t indent = 0);

}  // namespace plumb::cli
