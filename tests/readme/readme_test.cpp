// Does every command of the README do what its comment says?
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>

namespace {

namespace fs = std::filesystem;

TEST(Readme, CommandsLeaveTheExitCodesThatItSays) {
  const fs::path folder = fs::temp_directory_path() / ("plumb-readme-" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::ifstream readme(fs::path(PLUMB_SOURCE_DIR) / "README.md");
  const std::regex command(R"(^\$ plumb (.*?)\s+# exit (\d)$)");
  int commands = 0;
  for (std::string line; std::getline(readme, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, command)) {
      EXPECT_FALSE(line.starts_with("$ plumb")) << "no exit code: " << line;
      continue;
    }
    ++commands;
    const std::string shell =
        "cd " + folder.string() + " && " + PLUMB_PROGRAM + " " + match[1].str() + " >out.txt 2>&1";
    EXPECT_EQ(WEXITSTATUS(std::system(shell.c_str())), std::stoi(match[2])) << line;
  }
  EXPECT_GE(commands, 10);
  fs::remove_all(folder);
}

TEST(Readme, NamesEveryRoomAndBothCommands) {
  std::ifstream readme(fs::path(PLUMB_SOURCE_DIR) / "README.md");
  const std::string text((std::istreambuf_iterator<char>(readme)), {});
  for (const char* word : {"./run demo", "./run test", "./run test all", "./run bench",
                           "./run paper", "`bounds/`", "`world/`", "`kernels/`", "`trace/`",
                           "`model/`", "`injectors/`", "`experiments/`", "`paper_repro/`"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word;
  }
}

}  // namespace
