// Does every command of the README do what its comment says?
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace {

namespace fs = std::filesystem;

TEST(Readme, CommandsLeaveTheExitCodesThatItSays) {
  const fs::path folder = fs::temp_directory_path() / ("plumb-readme-" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::ifstream readme(fs::path(PLUMB_SOURCE_DIR) / "README.md");
  const std::string prompt = "$ plumb ", exit = "# exit ";
  int commands = 0;
  for (std::string line; std::getline(readme, line);) {
    if (!line.starts_with(prompt)) continue;
    const std::size_t comment = line.find(exit);
    ASSERT_NE(comment, std::string::npos) << "no exit code: " << line;
    ++commands;
    const std::string arguments = line.substr(prompt.size(), comment - prompt.size());
    const std::string shell =
        "cd " + folder.string() + " && " + PLUMB_PROGRAM + " " + arguments + " >out.txt 2>&1";
    EXPECT_EQ(WEXITSTATUS(std::system(shell.c_str())),
              std::stoi(line.substr(comment + exit.size())))
        << line;
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
