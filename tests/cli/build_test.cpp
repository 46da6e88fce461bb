// Does the program say of what it was built, wherever it runs?
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/cli/program.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::build_test {
namespace {

namespace fs = std::filesystem;

class Build : public InFolder {
 protected:
  static void SetUpTestSuite() { make_folder("plumb-build-"); }
  static int shell(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str());
  }
  static std::string content_of(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_F(Build, VersionSaysCommitLibrariesAndBackends) {
  const std::string out = plumb("--version").out;
  const std::regex form(
      "plumb \\d+\\.\\d+\\.\\d+\ncommit (unknown|\\S*[0-9a-f]{7,}(-dirty)?)\n"
      "instructions: (those of the machine that built it|any \\S+, products those of the .+)\n"
      "found when built: .+\nbackends that run here: reference.*\n");
  EXPECT_TRUE(std::regex_match(out, form)) << out;
  EXPECT_EQ(plumb("-V").out, out);
}

// Not of the folder that one happens to stand in.
TEST_F(Build, ProvenanceIsOfTheBuildNotOfTheFolderItRunsIn) {
  fs::create_directories(at("other"));
  const std::string git = "git -C " + at("other") + " -c user.name=a -c user.email=a@b.c ";
  if (shell(git + "init") != 0) GTEST_SKIP() << "no git here";
  shell(git + "commit --allow-empty -m other");
  const Said run = plumb("experiment soundness --only '^cast moments plain$' -o rows",
                         "cd " + at("other") + " && ");
  ASSERT_EQ(run.code, 0) << run.out;
  const auto facts = nlohmann::json::parse(content_of(at("other") + "/rows/soundness.json"));
  const std::string commit = facts.at("commit");
  EXPECT_NE(plumb("--version").out.find("commit " + commit + "\n"), std::string::npos) << commit;
}

TEST_F(Build, ACommitIsWrittenAnewOnlyWhereItChanged) {
  fs::create_directories(at("tree"));
  const std::string git = "git -C " + at("tree") + " -c user.name=a -c user.email=a@b.c ";
  if (shell(git + "init") != 0) GTEST_SKIP() << "no git here";
  std::ofstream(at("tree") + "/file") << "one";
  shell(git + "add file");
  shell(git + "commit -m first");
  const fs::path out = at("commit.cpp");
  const auto described = [&] {
    EXPECT_EQ(shell("cmake -DSOURCE=" + at("tree") + " -DOUT=" + out.string() +
                    " -P " PLUMB_SOURCE_DIR "/cmake/commit.cmake"),
              0);
    return content_of(out);
  };
  const std::string clean = described();
  EXPECT_TRUE(std::regex_search(clean, std::regex("\"[0-9a-f]{12}\""))) << clean;
  fs::last_write_time(out, fs::file_time_type::clock::now() - std::chrono::hours(1));
  const auto before = fs::last_write_time(out);
  EXPECT_EQ(described(), clean);
  EXPECT_EQ(fs::last_write_time(out), before);
  std::ofstream(at("tree") + "/file") << "two";
  EXPECT_NE(described().find("-dirty\""), std::string::npos);
}

}  // namespace
}  // namespace plumb::build_test
