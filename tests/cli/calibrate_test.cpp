// Does plumb calibrate write a card that bound takes, and say in one sentence what it cannot probe?
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/cli/program.hpp"
#include "tests/support/effort.hpp"

namespace plumb::calibrate_test {
namespace {

namespace fs = std::filesystem;

class CalibrateVerb : public testing::Test {
 protected:
  CalibrateVerb()
      : card_(fs::temp_directory_path() / ("plumb-card-" + std::to_string(getpid()) + ".json")) {}
  ~CalibrateVerb() override {
    for (const char* more : {"", ".answers", ".answers.lock"}) fs::remove(card_.string() + more);
  }
  static std::string content_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // A calibration that writes the card, by itself or as a child that can be killed.
  std::string words() const {
    return std::string("calibrate " PLUMB_EXAMPLE_PLUG_IN " --longest 200 -o ") + card_.string();
  }
  pid_t started() const {
    const pid_t child = fork();
    if (child == 0) {
      const std::string command = "exec " PLUMB_PROGRAM " " + words() + " >/dev/null 2>&1";
      execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    return child;
  }

  fs::path card_;
};

TEST_F(CalibrateVerb, IsResumedHoweverOftenItIsKilled) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  EXPECT_EQ(plumb(words()).code, 0);
  const auto lasts = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
  const std::string whole = content_of(card_);
  std::mt19937 random(1);
  int killed = 0, resumed = 0;
  while (killed < effort(4)) {
    fs::remove(card_);
    for (int status = 1, patience = 1; status != 0; ++patience) {
      resumed += fs::exists(card_.string() + ".answers") ? 1 : 0;
      const pid_t child = started();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % (patience * lasts.count())));
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      ASSERT_TRUE(WIFSIGNALED(status) || status == 0) << WEXITSTATUS(status);
      killed += status == 0 ? 0 : 1;
    }
    ASSERT_EQ(content_of(card_), whole) << "after " << killed << " kills";
    EXPECT_FALSE(fs::exists(card_.string() + ".answers"));
  }
  EXPECT_GT(resumed, 0);
}

TEST_F(CalibrateVerb, SaysWhatItGoesOnFromAndRefusesAnswersOfOtherOptions) {
  // An answer has 153,240 bytes at most, so that one is whole where a second would fit, whenever the
  // program is stopped: the file grows while an answer is being written.
  const auto has_answers = [&] {
    std::error_code none;
    const auto size = fs::file_size(card_.string() + ".answers", none);
    return !none && size >= 2 * 153240;
  };
  for (int tries = 0; !has_answers(); ++tries) {  // it may be done before it is stopped
    ASSERT_LT(tries, 50);
    fs::remove(card_);
    const pid_t child = started();
    int status = 0;
    while (!has_answers() && waitpid(child, &status, WNOHANG) == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    kill(child, SIGTERM);
    waitpid(child, &status, 0);
  }
  const Said other = plumb(words() + " --seed 2");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.out.find("has answers of another subject, other options or another build"),
            std::string::npos)
      << other.out;
  const Said said = plumb(words());
  EXPECT_EQ(said.code, 0);
  EXPECT_NE(said.out.find("from a calibration that was stopped, which goes on from there"),
            std::string::npos)
      << said.out;
}

TEST_F(CalibrateVerb, WritesACardThatBoundTakes) {
  const Said said = plumb(std::string("calibrate ") + PLUMB_EXAMPLE_PLUG_IN + " --longest 100 -o " +
                          card_.string() + " --device 'board 7' 2>/dev/null");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_NE(content_of(card_).find(" on board 7)"), std::string::npos) << content_of(card_);
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

// A card that says nothing could not be read again.
TEST_F(CalibrateVerb, WritesNoCardWhereNothingIsKnown) {
  const fs::path program = card_.string() + ".answers.py";
  std::ofstream(program) << R"(import json, random, struct, sys
with open(sys.argv[1], "rb") as file:
    asked = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
header, values = {}, b""
for name, a in asked.items():
    if name.startswith("a."):
        shape = [a["shape"][0], asked["b" + name[1:]]["shape"][1]]
        numbers = [random.uniform(-1, 1) for _ in range(shape[0] * shape[1])]
        raw = struct.pack(f"<{len(numbers)}f", *numbers)
        at = [len(values), len(values) + len(raw)]
        header["c" + name[1:]] = {"dtype": "F32", "shape": shape, "data_offsets": at}
        values += raw
text = json.dumps(header).encode()
with open(sys.argv[2], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + values)
)";
  const Said said = plumb("calibrate --longest 16 --widest 8 --command 'python3 " +
                          program.string() + "' -o " + card_.string());
  fs::remove(program);
  EXPECT_EQ(said.code, 3) << said.out;
  EXPECT_NE(said.out.find("no fact is known: "), std::string::npos) << said.out;
  EXPECT_FALSE(fs::exists(card_));
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
  EXPECT_NE(refused("--command false --stays").find("ended with 1; it is told"), std::string::npos);
  EXPECT_NE(refused("eigen --stays").find("--stays is of a --command"), std::string::npos);
  EXPECT_NE(refused("eigen --elements 5").find("--elements is of a --collective"),
            std::string::npos);
  EXPECT_NE(
      refused("eigen --device \"$(printf 'a\\033[1m')\"").find("--device names one in plain text"),
      std::string::npos);
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
}  // namespace plumb::calibrate_test
