// Does plumb calibrate write a card that bound takes, and say in one sentence what it cannot probe?
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace plumb {
namespace {

namespace fs = std::filesystem;

class CalibrateVerb : public testing::Test {
 protected:
  CalibrateVerb()
      : card_(fs::temp_directory_path() / ("plumb-card-" + std::to_string(getpid()) + ".json")) {}
  ~CalibrateVerb() override { fs::remove(card_); }

  fs::path card_;
};

TEST_F(CalibrateVerb, WritesACardThatBoundTakes) {
  const Said said = plumb(std::string("calibrate ") + PLUMB_EXAMPLE_PLUG_IN + " --longest 100 -o " +
                          card_.string() + " 2>/dev/null");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_NE(said.out.find("lanes 4 pairwise up to 100"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find(": 0 outside"), std::string::npos) << said.out;
  const Said bound =
      plumb("bound gemm 4x100x4 --recipe fp32 --mode moments --machine " + card_.string());
  EXPECT_EQ(bound.code, 0) << bound.out;
  const Said longer = plumb("bound gemm 4x200x4 --recipe fp32 --machine " + card_.string());
  EXPECT_EQ(longer.code, 0) << longer.out;
  const Said told = plumb("machines ieee-sequential " + card_.string());
  EXPECT_NE(told.out.find("lanes 4 pairwise up to 100"), std::string::npos) << told.out;
  EXPECT_NE(told.out.find("(silent)"), std::string::npos) << told.out;
}

TEST_F(CalibrateVerb, SaysTheSameInJson) {
  const Said said =
      plumb(std::string("calibrate ") + PLUMB_EXAMPLE_PLUG_IN + " --longest 16 --json 2>/dev/null");
  const auto document = nlohmann::json::parse(said.out);
  EXPECT_EQ(document["schema"], "plumb-calibrate/1");
  EXPECT_EQ(document["trees"]["4"], "((0 + 1) + (2 + 3))");
  EXPECT_EQ(document["validation"]["outside"], 0);
}

TEST_F(CalibrateVerb, RefusesWhatItCannotProbe) {
  const auto refused = [](const std::string& words) {
    const Said said = plumb("calibrate " + words + " 2>&1");
    EXPECT_EQ(said.code, 2) << words;
    EXPECT_EQ(std::ranges::count(said.out, '\n'), 1) << said.out;
    return said.out;
  };
  EXPECT_NE(refused("").find("name one of them"), std::string::npos);
  EXPECT_NE(refused("eigen --command true").find("name one of them"), std::string::npos);
  EXPECT_NE(refused("nobody").find("backend 'nobody' is unknown"), std::string::npos);
  EXPECT_NE(refused("nowhere.so").find("cannot open"), std::string::npos);
  EXPECT_NE(refused("eigen --format e8m0").find("unknown format"), std::string::npos);
  EXPECT_NE(refused("eigen -o card.txt").find("ends in .json"), std::string::npos);
  EXPECT_NE(refused("--command false").find("ended with 1"), std::string::npos);
  EXPECT_NE(
      refused(std::string(PLUMB_EXAMPLE_PLUG_IN) + " --format bf16").find("leave --format out"),
      std::string::npos);
}

TEST_F(CalibrateVerb, ListsAndComparesMachines) {
  EXPECT_NE(plumb("machines").out.find("h100"), std::string::npos);
  const std::string told = plumb("machines h100").out;
  EXPECT_NE(told.find("terms 16 grid 25 kept 23"), std::string::npos) << told;
  EXPECT_NE(told.find("published"), std::string::npos) << told;
  const std::string two = plumb("machines h100 b200").out;
  EXPECT_NE(two.find("mma_e4m3fn"), std::string::npos) << two;
  EXPECT_EQ(two.find("mma_bf16"), std::string::npos) << two;  // the same in both
  EXPECT_EQ(plumb("machines h100 h100").out, "h100 and h100 say the same\n");
  EXPECT_NE(plumb("machines ieee ieee-ring8").out.find("ring of 8 ranks"), std::string::npos);
}

}  // namespace
}  // namespace plumb
