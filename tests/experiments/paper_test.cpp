// Is the table of the paper's bugs in injectors/README.md that of the cards?
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "injectors/bug.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::paper_test {
namespace {

constexpr int in_table = 14;

// The rows between the two markers, without heading and rule.
std::set<std::string> rows_of_readme() {
  std::ifstream file(PLUMB_SOURCE_DIR "/injectors/README.md");
  std::set<std::string> rows;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "<!-- paper -->") inside = true;
    if (line == "<!-- end -->") inside = false;
    if (inside && line.starts_with("| ") && !line.starts_with("| paper")) rows.insert(line);
  }
  return rows;
}

TEST(Paper, TableOfTheReadmeIsThatOfTheCards) {
  std::set<std::string> rows;
  for (int number = 1; number <= in_table; ++number) {
    const std::string start = "| " + std::to_string(number) + " | ";
    bool planted = false;
    for (const Bug* bug : all_bugs()) {
      if (bug->paper.bug != number) continue;
      rows.insert(start + "`" + std::string(bug->id) + "` | " +
                  std::string(name_of(bug->paper.match)) + " |");
      planted = true;
    }
    if (!planted) rows.insert(start + "none | |");
  }
  EXPECT_EQ(rows_of_readme(), rows);
}

TEST(Paper, HasNoBugBeyondItsTable) {
  for (const Bug* bug : all_bugs()) {
    EXPECT_GE(bug->paper.bug, 0) << bug->id;
    EXPECT_LE(bug->paper.bug, in_table) << bug->id;
  }
}

}  // namespace
}  // namespace plumb::paper_test
