// Does every command of the README do what its comment says?
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

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

// Words with single blanks between.
std::string words(const std::string& text) {
  std::istringstream in(text);
  std::string all;
  for (std::string word; in >> word;) all += word + ' ';
  return all;
}

TEST(Readme, CommandsOfTheDemoPrintWhatItSays) {
  const fs::path folder = fs::temp_directory_path() / ("plumb-demo-" + std::to_string(getpid()));
  fs::create_directories(folder);
  const std::string shell =
      "cd " + folder.string() + " && " + PLUMB_PROGRAM + " demo >out.txt 2>&1";
  ASSERT_EQ(std::system(shell.c_str()), 0);
  std::ifstream out(folder / "out.txt");
  const std::string printed = words({std::istreambuf_iterator<char>(out), {}});
  std::ifstream readme(fs::path(PLUMB_SOURCE_DIR) / "README.md");
  std::string line;
  while (std::getline(readme, line) && line != "`./run demo` ends like this:") {
  }
  int fences = 0, lines = 0;
  while (fences < 2 && std::getline(readme, line)) {
    if (line == "```") {
      ++fences;
    } else if (fences == 1 && line != "...") {
      ++lines;  // what follows three dots at the end of a line is left out
      EXPECT_NE(printed.find(words(line.substr(0, line.find(" ...")))), std::string::npos) << line;
    }
  }
  EXPECT_GE(lines, 5);
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
