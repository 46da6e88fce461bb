// Do the front page and the pages of docs/ say what the program does?
//
// In a block of kind `console` a line "$ COMMAND  # exit N" is run, in a folder of its page's own;
// what stands below it has to be in its output, line by line (after " ..." anything may follow).
// A block behind a line "`NAME`:" is a file of that name in the folder. Commands find plumb.h,
// libplumb.so and the package plumb as where they are installed; those with a file that imports the
// package are left out where numpy is not there.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path source = PLUMB_SOURCE_DIR;

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Words with single blanks between, and one at each end: only whole words are found.
std::string words(const std::string& text) {
  std::istringstream in(text);
  std::string all = " ";
  for (std::string word; in >> word;) all += word + ' ';
  return all;
}

// What a line of a page says that the program prints: up to three dots at its end.
std::string shown(const std::string& line) { return words(line.substr(0, line.find(" ..."))); }

class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(fs::temp_directory_path() / ("plumb-" + name + "-" + std::to_string(getpid()))) {
    fs::create_directories(path_ / "bin");
    fs::create_symlink(PLUMB_PROGRAM, path_ / "bin/plumb");
    const fs::path python = "/usr/bin/python3";  // Debian's, whose packages are asked for
    if (fs::exists(python)) fs::create_symlink(python, path_ / "bin/python3");
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const fs::path& path() const { return path_; }
  // The exit code; what it prints lies in printed() then.
  int run(const std::string& command) const {
    const std::string library = (fs::path(PLUMB_PROGRAM).parent_path() / "c").string();
    std::ofstream(path_ / "bin/command")
        << "cd " << path_ << " && export PATH=$PWD/bin:$PATH PYTHONDONTWRITEBYTECODE=1 \\\n"
        << "CPATH=" << source / "c"
        << " PYTHONPATH=" << source / "python"
        << " LIBRARY_PATH=" << library << " \\\nLD_LIBRARY_PATH=" << library
        << " PLUMB_LIBRARY=" << library << "\n"
        << command << "\n";
    const std::string script = (path_ / "bin/command").string();
    const std::string out = (path_ / "bin/out.txt").string();
    return WEXITSTATUS(std::system(("bash " + script + " >" + out + " 2>&1").c_str()));
  }
  std::string printed() const { return text_of(path_ / "bin/out.txt"); }

 private:
  fs::path path_;
};

// Runs the blocks of a page and returns how many commands they have.
int run_blocks(const fs::path& page) {
  SCOPED_TRACE(page.filename().string());
  const Folder folder(page.stem().string());
  std::istringstream in(text_of(page));
  const std::string comment = "# exit ";
  std::string kind, printed, name, opened;
  std::ofstream file;
  std::vector<std::string> in_python;  // files that import the package
  const bool has_numpy = folder.run("python3 -c 'import numpy'") == 0;
  bool left_out = false;
  int commands = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      kind = kind.empty() ? line.substr(3) + " " : "";
      printed.clear();
      file.close();
      if (!kind.empty() && !name.empty()) file.open(folder.path() / name);
      opened = name;
      name.clear();
    } else if (file.is_open()) {
      file << line << "\n";
      if (line == "import plumbline as plumb") in_python.push_back(opened);
    } else if (kind.empty() && line.starts_with("`") && line.ends_with("`:")) {
      name = line.substr(1, line.size() - 3);
    } else if (kind.empty() && !line.empty()) {
      name.clear();
    } else if (kind == "console " && line.starts_with("$ ")) {
      const std::size_t end = line.find(comment);
      if (end == line.npos) {
        ADD_FAILURE() << "no exit code: " << line;
        continue;
      }
      ++commands;
      left_out = !has_numpy && std::ranges::any_of(in_python, [&](const std::string& script) {
        return line.find(script) != line.npos;
      });
      if (left_out) {
        std::cout << "left out, numpy is not installed: " << line << "\n";
        continue;
      }
      EXPECT_EQ(folder.run(line.substr(2, end - 2)), std::stoi(line.substr(end + comment.size())))
          << line << "\n"
          << folder.printed();
      printed = words(folder.printed());
    } else if (kind == "console " && line != "..." && !left_out) {
      EXPECT_NE(printed.find(shown(line)), printed.npos) << line << "\n" << folder.printed();
    }
  }
  EXPECT_TRUE(kind.empty()) << "a block has no end";
  return commands;
}

TEST(Readme, CommandsLeaveTheExitCodesThatItSays) {
  EXPECT_GE(run_blocks(source / "README.md"), 4);
}

// Pages of docs/ that have a command.
std::vector<std::string> pages_with_commands() {
  std::vector<std::string> pages;
  for (const auto& entry : fs::directory_iterator(source / "docs")) {
    const bool is_page = entry.path().extension() == ".md";
    if (is_page && text_of(entry.path()).find("\n$ ") != std::string::npos) {
      pages.push_back(entry.path().stem());
    }
  }
  std::ranges::sort(pages);
  return pages;
}

class Pages : public testing::TestWithParam<std::string> {};

TEST_P(Pages, HaveCommandsThatLeaveTheExitCodesAndPrintWhatTheySay) {
  EXPECT_GE(run_blocks(source / "docs" / (GetParam() + ".md")), 1);
}

INSTANTIATE_TEST_SUITE_P(Of, Pages, testing::ValuesIn(pages_with_commands()), [](const auto& of) {
  std::string name = of.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(Readme, KnowsPagesWithCommands) { EXPECT_GE(pages_with_commands().size(), 10U); }

TEST(Readme, CommandsOfTheDemoPrintWhatItSays) {
  const Folder folder("demo");
  ASSERT_EQ(folder.run("plumb demo"), 0);
  const std::string printed = words(folder.printed());
  std::istringstream readme(text_of(source / "README.md"));
  std::string line;
  while (std::getline(readme, line) && line != "`./run demo` ends like this:") {
  }
  int fences = 0, lines = 0;
  while (fences < 2 && std::getline(readme, line)) {
    if (line == "```") {
      ++fences;
    } else if (fences == 1 && line != "...") {
      ++lines;
      EXPECT_NE(printed.find(shown(line)), printed.npos) << line;
    }
  }
  EXPECT_GE(lines, 5);
}

TEST(Readme, ExamplesOfTheHelpRunOneAfterTheOtherAndEveryVerbHasOne) {
  const Folder folder("help");
  ASSERT_EQ(folder.run("plumb --help"), 0);
  const std::string help = folder.printed(), minutes = "--minutes 5";
  std::istringstream in(help.substr(help.find("Examples:")));
  std::string verbs;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("  plumb ")) continue;
    const std::string verb = line.substr(8, line.find(' ', 8) - 8);
    verbs += verb + " ";
    const std::string end = line.substr(line.size() - std::min(line.size(), minutes.size()));
    if (end == minutes) line.replace(line.size() - 1, 1, "0.001");  // no test has five
    EXPECT_EQ(folder.run(line), verb == "catch" ? 1 : 0) << line << "\n" << folder.printed();
    EXPECT_EQ(folder.run("plumb " + verb + " --help"), 0);
    EXPECT_NE(folder.printed().find("Example:\n  plumb " + verb), help.npos) << verb;
  }
  std::istringstream listed(help.substr(help.find("Subcommands:")));
  std::string line;
  for (std::getline(listed, line); std::getline(listed, line) && !line.empty();) {
    std::istringstream verb(line);
    verb >> line;
    EXPECT_NE(verbs.find(line + " "), verbs.npos) << line;
  }
}

TEST(Readme, NamesEveryRoomAndBothCommandsInOnePage) {
  const std::string text = text_of(source / "README.md");
  for (const char* word :
       {"./run demo", "./run test", "./run test all", "./run bench", "./run paper", "`number/`",
        "`bounds/`", "`world/`", "`kernels/`", "`trace/`", "`c/`", "`model/`", "`injectors/`",
        "`experiments/`", "`paper_repro/`", "`cli/`"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word;
  }
  EXPECT_LE(std::ranges::count(text, '\n'), 120);
}

TEST(Readme, LinksToEveryPage) {
  const std::string text = text_of(source / "README.md");
  const std::string site = text_of(source / "mkdocs.yml");
  for (const auto& entry : fs::directory_iterator(source / "docs")) {
    if (entry.path().extension() != ".md") continue;
    const std::string page = "docs/" + entry.path().filename().string();
    EXPECT_NE(text.find("(" + page + ")"), text.npos) << page;
    EXPECT_NE(site.find(" " + page + "\n"), site.npos) << page << " is not in mkdocs.yml";
  }
}

}  // namespace
