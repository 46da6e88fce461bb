// Does a corpus whose making was killed go on and end as one that was not, and does the score leave the exit
// codes that it promises?
#include <fcntl.h>
#include <signal.h>

#include <fstream>
#include <map>

#include "tests/cli/program.hpp"

namespace plumb::corpus_test {
namespace {

namespace fs = std::filesystem;

class CorpusVerbs : public InFolder {
 protected:
  static void SetUpTestSuite() {
    make_folder("plumb-corpus-");
    EXPECT_EQ(plumb(two + at("whole")).code, 0);
  }
  // By the path below the folder.
  static std::map<std::string, std::string> files_of(const std::string& name) {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(at(name))) {
      if (!entry.is_regular_file()) continue;
      std::ifstream in(entry.path(), std::ios::binary);
      all[fs::relative(entry.path(), at(name))] = {std::istreambuf_iterator<char>(in), {}};
    }
    return all;
  }
  static std::string scored(const std::string& verdicts) {
    std::ofstream(at("verdicts.jsonl")) << verdicts;
    return "score " + at("whole") + "/labels.json " + at("verdicts.jsonl");
  }
  // Of a process that is gone, and waited for.
  static void kill_after(int milliseconds) {
    const std::string out = at("killed");
    const pid_t child = fork();
    if (child == 0) {
      const int nothing = open("/dev/null", O_WRONLY);
      dup2(nothing, 1);
      dup2(nothing, 2);
      execl(PLUMB_PROGRAM, "plumb", "corpus", "--small", "--families", "gpt", "--bugs", bugs, "-o",
            out.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    usleep(static_cast<useconds_t>(1000 * milliseconds));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
  }
  static constexpr const char* bugs = "^(one-masked-entry|sp-norm-grad-not-reduced)$";
  static inline const std::string two =
      "corpus --small --families gpt --bugs '" + std::string(bugs) + "' -o ";
};

TEST_F(CorpusVerbs, GoOnAfterAKillAtAnyTime) {
  for (const int milliseconds : {200, 600}) {
    fs::remove_all(at("killed"));
    kill_after(milliseconds);
    const Said said = plumb(two + at("killed"));
    EXPECT_EQ(said.code, 0) << said.out;
    EXPECT_TRUE(files_of("killed") == files_of("whole")) << milliseconds;
  }
}

TEST_F(CorpusVerbs, SayTheSizeBeforeAndAfterAndMakeNothingTwice) {
  const Said said = plumb(two + at("whole"));
  EXPECT_EQ(said.code, 0);
  EXPECT_NE(said.out.find("2 pairs, 0 new, "), std::string::npos) << said.out;
  EXPECT_EQ(said.out.find("will be written"), std::string::npos) << said.out;
  const Said first = plumb(two + at("again"));
  EXPECT_NE(first.out.find("MB will be written\n2 pairs, 2 new, "), std::string::npos) << first.out;
}

TEST_F(CorpusVerbs, MakeAgainWhatWasTakenAwayAndNoticeAFileThatIsGone) {
  fs::copy(at("whole"), at("changed"), fs::copy_options::recursive);
  const fs::path changed = at("changed");
  fs::remove_all(changed / "cases" / "0001");
  fs::remove_all(changed / "references" / "0001" / "reference");
  fs::remove(changed / "undecided.jsonl");
  const Said said = plumb(two + at("changed"));
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_TRUE(files_of("changed") == files_of("whole")) << said.out;
  const fs::path file = changed / "cases" / "0002" / "step_000001" / "rank_00000.safetensors";
  ASSERT_TRUE(fs::remove(file));
  refused(two + at("changed"), file.string() + " is gone since the corpus was made");
}

TEST_F(CorpusVerbs, RefuseAnotherCorpusInTheSameFolder) {
  refused("corpus --small --bugs one-masked-entry -o " + at("whole"), "that was asked for by");
  refused("corpus --bugs nothing-like-it -o " + at("none"), "matches no bug");
  refused("corpus --families bert -o " + at("none"), "unknown family 'bert'");
  refused("score " + at("whole") + "/cases.json " + at("whole") + "/undecided.jsonl",
          "has no labels of a corpus");
  EXPECT_FALSE(fs::exists(at("none")));
}

TEST_F(CorpusVerbs, ScoreOfAllCasesIsZeroAndOfSomeThree) {
  const Said all =
      plumb("score " + at("whole") + "/labels.json " + at("whole") + "/undecided.jsonl");
  EXPECT_EQ(all.code, 0) << all.out;
  EXPECT_NE(all.out.find("undecided: 2 of 2 buggy, 2 of 2 healthy\n"), std::string::npos)
      << all.out;
  const Said some = plumb(scored("{\"case\": \"0001\", \"verdict\": \"pass\"}\n"));
  EXPECT_EQ(some.code, 3) << some.out;
  EXPECT_NE(some.out.find("missing, in no rate: 3 cases: 0002, 0003, 0004\n"), std::string::npos)
      << some.out;
  refused(scored("{\"case\": \"0005\", \"verdict\": \"pass\"}\n"), "the corpus does not have");
}

}  // namespace
}  // namespace plumb::corpus_test
