// Does a table of another program say what was not judged, or is undecided?
#include "trace/report/tables.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/rooms.hpp"
#include "trace/report/report.hpp"

namespace plumb::tables_test {
namespace {

Verdict left_open() {
  Verdict v;
  v.rules = {"twins"};
  v.lines = {{"a", "norm", 0.5, 0.01}, {"b", "row", 2, 0.02}};
  v.undecided = {{"b", "row", 2, "one row, alone"}};
  v.not_judged = {
      {"c", "its input 'x' was not recorded"}, {"d: 1", "odd name"}, {"e", "2"}, {"f", "3"}};
  v.could_fail = true;
  return v;
}

TEST(Tables, SayWhatWasNotJudgedOrIsUndecided) {
  const std::vector<StepVerdict> steps{{0, left_open()}};
  const std::string csv = csv_report(steps), junit = junit_report(steps);
  EXPECT_NE(csv.find("\n0,a,norm,0.5,0.01,40.00,1,0,,\n"), csv.npos) << csv;
  EXPECT_NE(csv.find("\n0,b,row,2,0.02,33.98,1,0,,\"undecided: one row, alone\"\n"), csv.npos)
      << csv;
  EXPECT_NE(csv.find("\n0,c,not judged,,,,,,,c: its input 'x' was not recorded\n"), csv.npos)
      << csv;
  EXPECT_NE(csv.find("\n0,d: 1,not judged,,,,,,,d: 1: odd name\n"), csv.npos) << csv;
  EXPECT_NE(junit.find("failures=\"0\" errors=\"0\" skipped=\"5\""), junit.npos) << junit;
  EXPECT_NE(junit.find("name=\"b\"><skipped message=\"undecided: one row, alone\"/>"), junit.npos);
  const std::string markdown = markdown_report(steps);
  EXPECT_NE(markdown.find("- not judged: 1 more, all of which a report"), markdown.npos)
      << markdown;
}

// Ids are another program's texts.
TEST(Tables, OfMarkdownHaveNoMarksOfIds) {
  Verdict v = left_open();
  v.notes = {"of <b> it is said"};
  v.findings = {{"a`|<i>", "row", 2, "x < y | z"}};
  const std::string text = markdown_report({{0, v}});
  EXPECT_NE(text.find("- of &lt;b> it is said\n"), text.npos) << text;
  EXPECT_NE(text.find("| `a'\\|<i>` | row | 2 | x &lt; y \\| z |\n"), text.npos) << text;
}

TEST(Tables, ShowTheFindingOfWhoIsBlamedHoweverManyComeBeforeIt) {
  Verdict v;
  for (const char* id : {"a", "b", "c", "d"}) v.findings.push_back({id, "norm", 2, "far"});
  v.findings[2].statistic = v.blamed_by = "replay";
  v.blamed = "c";
  const auto shown = [&](std::size_t most) {
    std::string ids;
    std::istringstream lines(text_report(v, most));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("  ")) ids += line[2];
    }
    return ids;
  };
  EXPECT_EQ(shown(2), "ca.");
  EXPECT_EQ(shown(3), "abc.");
  EXPECT_EQ(shown(4), "abcd");
}

}  // namespace
}  // namespace plumb::tables_test
