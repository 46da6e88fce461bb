// Does `plumb paper` say where rows are lacking, and what to do, and does its exit code tell?
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "paper_repro/claim.hpp"
#include "tests/cli/program.hpp"

namespace plumb::paper_test {
namespace {

namespace fs = std::filesystem;

class Paper : public InFolder {
 protected:
  static void SetUpTestSuite() {
    make_folder("plumb-paper-");
    fs::create_directories(at("empty"));
  }
  static bool says(const Said& said, const std::string& part) {
    return said.out.find(part) != std::string::npos;
  }
};

TEST_F(Paper, WithoutRowsOfAnyClaimIsOneSentenceAndExitCode3) {
  const Said said = plumb("paper --rows " + at("empty"));
  EXPECT_EQ(said.code, 3);
  EXPECT_EQ(std::ranges::count(said.out, '\n'), 1) << said.out;
  EXPECT_TRUE(says(said, at("empty") + " has no rows")) << said.out;
  EXPECT_TRUE(says(said, "--rows " + at("empty"))) << said.out;
  EXPECT_EQ(plumb("paper --json --rows " + at("empty")).code, 3);
  EXPECT_EQ(plumb("paper").code, 0);
}

TEST_F(Paper, OfOneClaimWithoutRowsSaysNothingOfWhoMadeThem) {
  const Said said = plumb("paper E5 --rows " + at("empty"));
  EXPECT_EQ(said.code, 3);
  EXPECT_TRUE(says(said, "--rerun E5 --rows " + at("empty"))) << said.out;
  for (const char* part : {"not said", "picture", "DIR", ".csv"}) {
    EXPECT_FALSE(says(said, part)) << part << " in\n" << said.out;
  }
}

TEST_F(Paper, TellsHowManyRowsItJudgesByAndWhoMadeThem) {
  const std::string rerun = "paper --rerun B1 --smoke --rows " + at("made");
  EXPECT_EQ(plumb(rerun).code, 0);
  const Said said = plumb("paper B1 --rows " + at("made"));
  EXPECT_EQ(said.code, 0);
  EXPECT_TRUE(says(said, at("made") + "/soundness.csv (6 rows), made by: plumb experiment"));
  const auto document =
      nlohmann::json::parse(plumb("paper B1 --json --rows " + at("made")).out, nullptr, false);
  EXPECT_EQ(document["claims"][0]["rows"][0]["count"], 6);
  fs::remove(at("made") + "/soundness.json");
  EXPECT_TRUE(says(plumb("paper B1 --rows " + at("made")), "(6 rows); no soundness.json"));
}

TEST_F(Paper, NamesTheProgramsThatItDoesNotCallAndMakesTheirFolder) {
  for (const auto& [claim, program] :
       std::initializer_list<std::pair<std::string, std::string>>{{"E3", "examples/torch/run.py"},
                                                                  {"E11", "bench_workflow"},
                                                                  {"B9", "outsiders.py"},
                                                                  {"B10", "examples/torch/run.py"},
                                                                  {"B15", "blindness.py"}}) {
    const std::string folder = at("new/of " + claim);
    const Said said = plumb("paper --rerun " + claim + " --rows '" + folder + "'");
    EXPECT_EQ(said.code, 3) << said.out;
    EXPECT_TRUE(says(said, program)) << said.out;
    EXPECT_TRUE(says(said, "needs")) << said.out;
    EXPECT_TRUE(fs::is_directory(folder));
  }
}

TEST_F(Paper, IsAsWideAsATerminalAndMarkdownInAPipe) {
  const Said shown = plumb_on_terminal("paper", 90, "TERM=dumb"), piped = plumb("paper");
  std::istringstream in(shown.out);
  for (std::string line; std::getline(in, line);) EXPECT_LE(line.size(), 90U) << line;
  EXPECT_EQ(shown.code, 0);
  EXPECT_FALSE(says(shown, "|")) << shown.out;
  EXPECT_TRUE(piped.out.starts_with("| | claim |")) << piped.out;
  for (const Claim* claim : all_claims()) {
    EXPECT_TRUE(says(shown, "\n" + std::string(claim->id) + " ")) << claim->id;
  }
}

TEST_F(Paper, ExplainsItsWordsInItsHelp) {
  const Said said = plumb("paper --help");
  for (const char* part : {"stress", "; accuses", ", but accuses", "Exit codes", "3 these rows"}) {
    EXPECT_TRUE(says(said, part)) << part << " in\n" << said.out;
  }
}

}  // namespace
}  // namespace plumb::paper_test
