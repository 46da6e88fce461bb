// Do the verbs leave the exit codes they promise, and does bad input get one sentence?
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "trace/store/store.hpp"

namespace plumb {
namespace {

namespace fs = std::filesystem;

struct Said {
  int code;
  std::string out;
};

class Cli : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder() = fs::temp_directory_path() / ("plumb-cli-" + std::to_string(getpid()));
    fs::remove_all(folder());
    fs::create_directories(folder());
    EXPECT_EQ(plumb("train " + sizes + " -o " + at("ref")).code, 0);
    EXPECT_EQ(plumb("train " + sizes + " --layout dp2,tp2 -o " + at("healthy")).code, 0);
    EXPECT_EQ(plumb("train " + sizes + " --layout dp2,tp2 --bug embedding-mask-on-shifted-ids -o " +
                    at("buggy"))
                  .code,
              0);
  }
  static void TearDownTestSuite() { fs::remove_all(folder()); }

  static fs::path& folder() {
    static fs::path path;
    return path;
  }
  static std::string at(const std::string& name) { return (folder() / name).string(); }
  // Both streams together.
  static Said plumb(const std::string& arguments) {
    Said result{-1, ""};
    FILE* pipe = popen((std::string(PLUMB_PROGRAM) + " " + arguments + " 2>&1").c_str(), "r");
    char text[4096];
    while (fgets(text, sizeof text, pipe) != nullptr) result.out += text;
    result.code = WEXITSTATUS(pclose(pipe));
    return result;
  }
  // One line, exit code 2.
  static void refused(const std::string& arguments, const std::string& because) {
    const Said r = plumb(arguments);
    EXPECT_EQ(r.code, 2) << arguments << "\n" << r.out;
    EXPECT_EQ(std::count(r.out.begin(), r.out.end(), '\n'), 1) << r.out;
    EXPECT_NE(r.out.find(because), std::string::npos) << r.out;
  }

  inline static const std::string sizes =
      "--layers 2 --width 32 --heads 4 --hidden 64 --sequence 16";
};

TEST_F(Cli, CheckAcquitsTheHealthyAndBlamesTheBuggyRun) {
  EXPECT_EQ(plumb("check " + at("ref") + " " + at("healthy")).code, 0);
  const Said buggy = plumb("check " + at("ref") + " " + at("buggy"));
  EXPECT_EQ(buggy.code, 1);
  EXPECT_NE(buggy.out.find("blamed: m0/embedding/out\n"), std::string::npos) << buggy.out;
  EXPECT_NE(
      plumb("localize " + at("ref") + " " + at("buggy")).out.find("blamed: m0/embedding/out\n"),
      std::string::npos);
  EXPECT_EQ(plumb("replay " + at("healthy")).code, 0);
  EXPECT_EQ(plumb("replay " + at("buggy")).code, 1);
}

TEST_F(Cli, CatchSaysTheSameAndAHealthyJointIsSilent) {
  const std::string same = sizes + " --layout dp2,tp2";
  const Said caught = plumb("catch embedding-mask-on-shifted-ids " + same);
  EXPECT_EQ(caught.code, 1);
  EXPECT_NE(caught.out.find("blamed: m0/embedding/out\n"), std::string::npos) << caught.out;
  EXPECT_EQ(plumb("catch embedding-mask-on-shifted-ids --healthy " + same).code, 0);
}

TEST_F(Cli, ATraceOfZerosIsInconclusive) {
  Trace zeros = read_trace(at("healthy"));
  for (RankRecord& rank : zeros.ranks) {
    for (auto& [id, shard] : rank.shards) {
      if (id.find("data/") != std::string::npos || id.find("@previous") != std::string::npos)
        continue;
      std::fill(shard.values.values.begin(), shard.values.values.end(), 0.0F);
    }
  }
  write_trace(zeros, at("zeros"));
  EXPECT_EQ(plumb("check " + at("zeros") + " " + at("zeros")).code, 3);
}

TEST_F(Cli, RefusesWithOneSentence) {
  refused("check " + at("ref") + " " + at("nothing"), "is not a folder");
  refused("check " + at("ref") + " " + at("healthy") + " --only nothing", "leave no tensor");
  refused("check " + at("ref") + " " + at("healthy") + " --only '('", "not a regular expression");
  refused("check " + at("ref") + " " + at("healthy") + " --rule luck", "unknown rule");
  refused("catch nothing", "unknown bug");
  refused("catch one-masked-entry --layout dp2", "needs at least the layout");
  refused("catch bias-before-row-parallel-reduce --family llama", "needs the family");
  refused("train --recipe int3 -o " + at("x"), "unknown recipe");
  refused("train --layout tp3 -o " + at("x"), "does not divide");
  refused("train --family cnn -o " + at("x"), "unknown family");
  refused("train --data " + at("no.txt") + " -o " + at("x"), "cannot read the text");
  refused("train -o " + at("ref"), "exists already");
  refused("bound gemm 12 ", "does not fit");
  refused("bound gemm 4x4x4 --machine abacus", "known: a100");
  refused("bound softmax 4x4 --machine h100", "cannot be asked for");
  refused("bound rmsnorm 4x4 --machine h100", "cuts its sums");
  refused("bound gemm 4x4x4 --machine h100 --rule probabilistic", "no mean of zero");
  refused("bound gemm 4x4x4 --machine v100", "no matrix unit for bf16");
  refused("run nothing", "unknown experiment");
  EXPECT_FALSE(fs::exists(at("x")));
  EXPECT_FALSE(fs::exists(at("x.partial")));
}

TEST_F(Cli, RefusesDamagedAndLyingTraces) {
  const auto copied = [&](const std::string& name) {
    fs::remove_all(at(name));
    fs::copy(at("healthy"), at(name), fs::copy_options::recursive);
    return fs::path(at(name));
  };
  const std::string before = "check " + at("ref") + " ";
  fs::path bad = copied("cut");
  fs::resize_file(bad / "step_000001" / "rank_00001.safetensors", 5000);
  refused(before + bad.string(), "the trace is damaged");
  bad = copied("unfinished");
  fs::remove(bad / "manifest.json");
  refused(before + bad.string(), "incomplete");
  bad = copied("nonsense");
  std::ofstream(bad / "manifest.json") << "{\"schema\": 7}";
  refused(before + bad.string(), "trace again");
  // A promise with more parts than the layout makes: a tolerance written by the accused.
  Trace alibi = read_trace(at("healthy"));
  alibi.graph->nodes[5].how.parts = 2;
  fs::remove_all(at("alibi"));
  write_trace(alibi, at("alibi"));
  refused(before + at("alibi"), "is not what the manifest's settings make");
}

TEST_F(Cli, HelpIsThereForEveryVerb) {
  for (const char* verb : {"demo", "bugs", "catch", "train", "check", "localize", "replay",
                           "inspect", "bound", "run", "paper"}) {
    EXPECT_EQ(plumb(std::string(verb) + " --help").code, 0) << verb;
  }
  EXPECT_EQ(plumb("").code, 2);
}

}  // namespace
}  // namespace plumb
