// Does a run write the loss of each of its steps, and show it?
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "tests/cli/program.hpp"

namespace plumb::curve_test {
namespace {

class TrainCurve : public InFolder {
 protected:
  static void SetUpTestSuite() { make_folder("plumb-curve-"); }
  // The losses of a file whose steps are 1, 2, ...
  static std::vector<double> losses(const std::string& file) {
    std::ifstream in(at(file));
    std::string line;
    EXPECT_TRUE(std::getline(in, line) && line == "step,loss") << file;
    std::vector<double> all;
    int step = 0;
    for (char comma = 0; in >> step >> comma;) {
      EXPECT_EQ(step, static_cast<int>(all.size()) + 1);
      in >> all.emplace_back();
    }
    return all;
  }
  static double loss_in(const std::string& trace) {
    const Said said = plumb("inspect " + at(trace) + " --only '^loss/out$' --json 2>/dev/null");
    return nlohmann::json::parse(said.out)["tensors"][0]["largest"];
  }
  static std::string train(const std::string& to, const std::string& more) {
    return "train" + small_sizes + "-o " + at(to) + " --curve " + at(to + ".csv") + " " + more;
  }
};

TEST_F(TrainCurve, HasTheLossOfEachStepAndTheLastIsTheTraces) {
  const Said said = plumb(train("last", "--steps 5"));
  ASSERT_EQ(said.code, 0) << said.out;
  const auto all = losses("last.csv");
  ASSERT_EQ(all.size(), 5U);
  EXPECT_LT(all[4], all[0]);
  EXPECT_NEAR(all[4], loss_in("last"), 1e-6);
  std::ostringstream shown;
  shown.precision(3);
  shown << std::fixed << "loss " << all[4] << ", trace of step 5 in ";
  EXPECT_TRUE(said.out.starts_with(shown.str())) << said.out;
}

TEST_F(TrainCurve, IsTheSameOfRunsWhoseEveryStepIsTraced) {
  ASSERT_EQ(plumb(train("every", "--steps 3 --every-step")).code, 0);
  const auto all = losses("every.csv");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_NEAR(all[1], loss_in("every/step_000002"), 1e-6);
  ASSERT_EQ(plumb("train --layout tp2 --resync " + at("every") + " -o " + at("again") +
                  " --curve " + at("again.csv"))
                .code,
            0);
  const auto again = losses("again.csv");
  ASSERT_EQ(again.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(again[i], all[i], 0.01);
}

TEST_F(TrainCurve, IsAPictureWhereTheTerminalKnowsItsCharacters) {
  const Said seen = plumb(train("seen", "--steps 70"), "LC_ALL=C.UTF-8 ");
  ASSERT_EQ(seen.code, 0) << seen.out;
  EXPECT_NE(seen.out.find(" in 70 steps, rows in "), seen.out.npos) << seen.out;
  const std::size_t from = seen.out.find("\n  \u2588");
  ASSERT_NE(from, seen.out.npos) << seen.out;
  EXPECT_EQ(seen.out.size() - from, 3 + 60 * 3 + 1) << "three bytes a character";
  EXPECT_NE(seen.out.find("\u2581", from), seen.out.npos);
  const Said plain = plumb(train("plain", "--steps 3"), "LC_ALL=C ");
  EXPECT_EQ(plain.out.find("\u2588"), plain.out.npos) << plain.out;
}

TEST_F(TrainCurve, NeedsAFileOfItsOwnBeforeAnyWork) {
  std::ofstream(at("taken.csv")) << "mine\n";
  const std::string here = "train" + small_sizes + "-o " + at("none") + " --curve ";
  refused(here + at("taken.csv"), "exists already");
  refused(here + at("curve.txt"), "ends in .csv");
  refused(here + at("taken.csv/curve.csv"), "no folder that can be written");
  EXPECT_FALSE(std::filesystem::exists(at("none")));
}

}  // namespace
}  // namespace plumb::curve_test
