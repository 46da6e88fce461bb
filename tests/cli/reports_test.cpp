// Do reports of every form say what the verdict says, are they what others read, and does a reader
// find his way about the page?
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/program.hpp"
#include "tests/support/traces.hpp"

namespace plumb::reports_test {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

Said python(const std::string& arguments) {
  Said result{-1, ""};
  FILE* pipe = popen(("/usr/bin/python3 " + arguments + " 2>&1").c_str(), "r");
  char text[4096];
  while (fgets(text, sizeof text, pipe) != nullptr) result.out += text;
  result.code = WEXITSTATUS(pclose(pipe));
  return result;
}

class Reports : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = fs::temp_directory_path() / ("reports" + std::to_string(getpid()));
    fs::create_directories(folder);
    std::string reports;
    for (const char* form : {"html", "jsonl", "txt", "md", "csv", "xml"}) {
      reports += " --report " + (folder / "bug.").string() + form;
    }
    said = plumb("catch sp-norm-grad-not-reduced --layers 2 --width 64" + reports);
  }
  static void TearDownTestSuite() { fs::remove_all(folder); }

  // The first line of the JSON lines.
  static nlohmann::json verdict() {
    std::istringstream lines(text_of(folder / "bug.jsonl"));
    std::string first;
    std::getline(lines, first);
    return nlohmann::json::parse(first);
  }

  static fs::path folder;
  static Said said;
};
fs::path Reports::folder;
Said Reports::said;

TEST_F(Reports, OfCsvHasARowForEachTensor) {
  const std::string text = text_of(folder / "bug.csv");
  EXPECT_TRUE(
      text.starts_with("step,id,statistic,ratio,relative,sqnr_db,cosine,largest,p,finding\n"));
  EXPECT_GE(count(text, "\n"), 1 + verdict()["tensors"].get<std::size_t>());
  EXPECT_NE(text.find("\"replicas disagree: ranks 0 and 1 hold"), text.npos);
  const Said read =
      python("-c \"import csv; rows = list(csv.DictReader(open('" + (folder / "bug.csv").string() +
             "'))); print(len(rows), sum(r['finding'] != '' for r in rows), "
             "len({len(r) for r in rows}))\"");
  std::istringstream numbers(read.out);
  std::size_t rows = 0, wrong = 0, widths = 0;
  numbers >> rows >> wrong >> widths;
  EXPECT_EQ(rows, verdict()["tensors"].get<std::size_t>()) << read.out;
  EXPECT_GT(wrong, 20U);
  EXPECT_EQ(widths, 1U);
}

TEST_F(Reports, OfJunitIsXmlWithAFailureForEachFinding) {
  const Said read = python(
      "-c \"import xml.etree.ElementTree as E; t = E.parse('" + (folder / "bug.xml").string() +
      "').getroot(); print(t.tag, len(t.findall('.//testcase')), "
      "len(t.findall('.//failure')), t[0].get('failures'), "
      "len([c for c in t.iter('testcase') if c.find('failure') is not None]))\"");
  std::istringstream words(read.out);
  std::string tag;
  std::size_t cases = 0, failures = 0, claimed = 0, failing = 0;
  words >> tag >> cases >> failures >> claimed >> failing;
  EXPECT_EQ(tag, "testsuites") << read.out;
  EXPECT_EQ(cases, verdict()["tensors"].get<std::size_t>());
  EXPECT_EQ(failures, verdict()["findings"].get<std::size_t>());
  EXPECT_EQ(claimed, failing);
}

TEST_F(Reports, OfJunitCallsAVerdictThatCouldNotFailAnError) {
  const std::string trace = (folder / "r").string(), report = (folder / "same.xml").string();
  ASSERT_EQ(plumb("train --layers 1 --width 64 -o " + trace).code, 0);
  EXPECT_EQ(plumb("check " + trace + " " + trace + " --report " + report).code, 3);
  EXPECT_NE(text_of(report).find("errors=\"1\""), std::string::npos);
}

TEST_F(Reports, SayHowManyTensorsNobodyLookedAt) {
  const std::string trace = (folder / "part").string();
  ASSERT_EQ(plumb("train --layers 1 --width 64 -o " + trace).code, 0);
  plumb("check " + trace + " " + trace + " --only norm --report " + trace + ".xml --report " +
        trace + ".jsonl");
  const std::string lines = text_of(trace + ".jsonl");
  const auto left_out =
      nlohmann::json::parse(lines.substr(0, lines.find('\n')))["not_looked_at"].get<std::size_t>();
  EXPECT_GT(left_out, 10U);
  EXPECT_NE(text_of(trace + ".xml")
                .find("name=\"not looked at: " + std::to_string(left_out) + " tensors"),
            std::string::npos);
}

// U+FFFF, which no XML holds.
TEST_F(Reports, OfJunitAreXmlWhateverATensorIsCalled) {
  const std::string odd = "a\xef\xbf\xbf<b>", ref = (folder / "odd").string();
  for (const float x : {1.0F, 2.0F}) {
    write_trace2(ref + (x == 1 ? "1" : "2"), manifest2(1), {{{f32(odd, {1, 2}, {x, 3})}}});
  }
  const Said said = plumb("check " + ref + "1 " + ref + "2 --rule flat --report " + ref + ".xml");
  EXPECT_EQ(said.code, 1) << said.out;
  const Said read = python("-c \"import xml.etree.ElementTree as E; print(len(E.parse('" + ref +
                           ".xml').getroot().findall('.//failure')))\"");
  EXPECT_EQ(read.out, "1\n");
}

TEST_F(Reports, OfMarkdownHasTables) {
  const std::string text = text_of(folder / "bug.md");
  EXPECT_TRUE(text.starts_with("# verdict: FAIL")) << text.substr(0, 200);
  EXPECT_NE(text.find("\n| finding | statistic | ratio | what |\n|---|---|---|---|\n| `"),
            text.npos);
  EXPECT_NE(text.find("more findings: a report .jsonl, .csv or .html has all"), text.npos);
  EXPECT_NE(text.find("\n| worst tensors | statistic | ratio |"), text.npos);
}

TEST_F(Reports, OfHtmlAreUsedInABrowser) {
  const std::string ref = (folder / "ref").string(), run = (folder / "run").string();
  ASSERT_EQ(plumb("train --layers 2 --width 64 --steps 2 --every-step -o " + ref).code, 0);
  ASSERT_EQ(plumb("train --resync " + ref + " --layout dp2,tp2 -o " + run).code, 0);
  EXPECT_EQ(
      plumb("check " + ref + " " + run + " --report " + (folder / "steps.html").string()).code, 0);
  const Said used = python(PLUMB_SOURCE_DIR "/tests/cli/html_page.py " + folder.string());
  if (used.out.starts_with("no browser")) GTEST_SKIP() << used.out;
  EXPECT_EQ(used.out, "ok\n");
}

}  // namespace
}  // namespace plumb::reports_test
