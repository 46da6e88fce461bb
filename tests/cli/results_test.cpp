// Are rows of results neither lost nor doubled, whoever is killed and whoever else writes?
#include <fcntl.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "tests/cli/program.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::results_test {
namespace {

namespace fs = std::filesystem;
using std::chrono::microseconds;
using Clock = std::chrono::steady_clock;

// Four operations, seven kinds of inputs, three modes that are judged and written together.
constexpr int rows_asked = 84;

class Results : public InFolder {
 protected:
  static void SetUpTestSuite() { make_folder("plumb-results-"); }

  // Writes results into `out`; what it says goes to `out`.said.
  static pid_t started(const std::string& out) {
    const pid_t child = fork();
    if (child != 0) return child;
    const int said = open((at(out) + ".said").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
    dup2(said, 1);
    dup2(said, 2);
    execl(PLUMB_PROGRAM, PLUMB_PROGRAM, "experiment", "soundness", "--only",
          "^(add|cast|unscale|scale) ", "-o", at(out).c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  static int code_of(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  static std::multiset<std::string> lines_of(const std::string& out) {
    std::ifstream in(at(out) + "/soundness.csv");
    std::multiset<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.insert(line);
    return lines;
  }
  // What one run makes that nobody disturbs.
  static const std::multiset<std::string>& whole() {
    static const std::multiset<std::string> lines = [] {
      const auto start = Clock::now();
      EXPECT_EQ(code_of(started("alone")), 0);
      lasts() = std::chrono::duration_cast<microseconds>(Clock::now() - start);
      return lines_of("alone");
    }();
    return lines;
  }
  static microseconds& lasts() {
    static microseconds time{};
    return time;
  }
};

TEST_F(Results, LoseAndDoubleNoRowHoweverOftenTheirWriterIsKilled) {
  ASSERT_EQ(whole().size(), 1U + rows_asked);
  std::mt19937 random(1);
  int killed = 0;
  for (int run = 0; killed < effort(16); ++run) {
    const std::string out = "killed" + std::to_string(run);
    for (int code = -1; code != 0;) {
      const pid_t child = started(out);
      std::this_thread::sleep_for(microseconds(random() % (lasts().count() + 1)));
      kill(child, SIGKILL);
      code = code_of(child);
      killed += code == -1 ? 1 : 0;
      ASSERT_TRUE(code == -1 || code == 0) << code;
    }
    ASSERT_EQ(lines_of(out), whole()) << "after " << killed << " kills";
  }
}

TEST_F(Results, HaveOneWriterAndTheOtherIsRefusedInOneSentence) {
  ASSERT_EQ(whole().size(), 1U + rows_asked);
  std::mt19937 random(2);
  int refused = 0;
  for (int pair = 0; pair < effort(8); ++pair) {
    const std::string out = "pair" + std::to_string(pair);
    const pid_t first = started(out);
    std::this_thread::sleep_for(microseconds(random() % (lasts().count() / 2 + 1)));
    const pid_t second = started(out);
    const int codes[] = {code_of(first), code_of(second)};
    for (const int code : codes) ASSERT_TRUE(code == 0 || code == 2) << code;
    EXPECT_NE(codes[0] + codes[1], 4) << "one of them writes";
    ASSERT_EQ(lines_of(out), whole()) << "after pair " << pair;
    std::ifstream in(at(out) + ".said");
    const std::string said((std::istreambuf_iterator<char>(in)), {});
    const bool sentence = said.find("is being written by another process") != said.npos;
    EXPECT_EQ(sentence, codes[0] + codes[1] == 2) << said;
    refused += sentence ? 1 : 0;
    EXPECT_FALSE(fs::exists(at(out) + "/soundness.csv.lock"));
  }
  EXPECT_GT(refused, 0);
}

TEST_F(Results, SayWhetherTheyAreCompleteAndWhatIsLeft) {
  const std::string run = "experiment soundness -o " + at("said") + " --only ";
  refused(run + "nomatch", "--only 'nomatch' matches none of the ");
  EXPECT_FALSE(fs::exists(at("said")));
  const Said early = plumb(run + "'^gemm moments' --effort 50 --minutes 0.001");
  EXPECT_EQ(early.code, 0);
  EXPECT_NE(early.out.find("time is up, "), std::string::npos) << early.out;
  EXPECT_NE(early.out.find(" of 7 keys are left: run again to go on"), std::string::npos);
  const Said whole = plumb(run + "'^cast moments plain$'");
  EXPECT_NE(whole.out.find("(3 new)"), std::string::npos) << whole.out;
  EXPECT_NE(whole.out.find("complete for --only"), std::string::npos) << whole.out;
}

// Weights are trained for minutes before the first row.
TEST_F(Results, TimeIsUpWhileWeightsAreTrained) {
  const auto start = Clock::now();
  const Said said = plumb("experiment smallest-fault --minutes 0.001 -o " + at("late") +
                          " --cache " + at("cache"));
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_NE(said.out.find("time is up"), std::string::npos) << said.out;
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(30));
}

}  // namespace
}  // namespace plumb::results_test
