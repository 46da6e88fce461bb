// Do columns of tables stand apart, and does a line end where the terminal does?
#include <sstream>
#include <vector>

#include "tests/cli/program.hpp"

namespace plumb::columns_test {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// Columns that end in two blanks in every line at once.
int gutters(const std::vector<std::string>& lines) {
  std::size_t longest = 0;
  for (const std::string& line : lines) longest = std::max(longest, line.size());
  int seen = 0, blanks = 0;
  for (std::size_t at = 0; at < longest; ++at) {
    const bool blank = std::ranges::all_of(
        lines, [at](const std::string& line) { return at >= line.size() || line[at] == ' '; });
    blanks = blank ? blanks + 1 : 0;
    if (blanks == 2) ++seen;
  }
  return seen;
}

const std::vector<std::pair<std::string, int>> tables = {
    {"bugs", 4}, {"experiment", 1}, {"recipes", 1}, {"recipes fp8-block", 1}};

TEST(Columns, StandApartInEveryLine) {
  for (const auto& [command, between] : tables) {
    EXPECT_EQ(gutters(lines_of(plumb(command).out)), between) << plumb(command).out;
  }
}

TEST(Columns, EndWhereTheTerminalDoesAndSayTheSame) {
  for (const auto& [command, between] : tables) {
    const Said piped = plumb(command);
    for (const auto& [columns, variables, most] :
         {std::tuple<unsigned short, std::string, std::size_t>{140, "TERM=dumb", 140},
          {140, "TERM=dumb COLUMNS=130", 130},
          {140, "TERM=dumb COLUMNS=none", 140}}) {
      const Said shown = plumb_on_terminal(command, columns, variables);
      std::size_t longest = 0;
      for (const std::string& line : lines_of(shown.out)) longest = std::max(longest, line.size());
      EXPECT_LE(longest, most) << shown.out;
      EXPECT_EQ(words_of(shown.out), words_of(piped.out)) << shown.out;
      EXPECT_EQ(gutters(lines_of(shown.out)), between) << shown.out;
    }
    EXPECT_EQ(plumb(command, "COLUMNS=60 ").out, piped.out) << "a pipe has no width";
  }
}

// Where next to nothing is left for the last column, the terminal may break the line itself.
TEST(Columns, OfANarrowTerminalAreThoseOfAPipe) {
  EXPECT_EQ(plumb_on_terminal("bugs", 40, "TERM=dumb").out, plumb("bugs").out);
}

// Headings have escapes around them, which take no place.
TEST(Columns, KeepTheirPlacesUnderPaintedHeadings) {
  const std::string heading = lines_of(plumb("bugs", "CLICOLOR_FORCE=1 ").out)[0];
  EXPECT_EQ(heading, "\033[1m" + lines_of(plumb("bugs").out)[0] + "\033[0m");
}

}  // namespace
}  // namespace plumb::columns_test
