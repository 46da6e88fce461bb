// tests/cli/program.hpp: runs the program as a user does.
#pragma once

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include "tests/support/rooms.hpp"

namespace plumb {

struct Said {
  int code;
  std::string out;
};

// With both streams together, unless `arguments` say where stdout goes. `by`: what starts it.
inline Said plumb(const std::string& arguments, const std::string& by = "") {
  Said result{-1, ""};
  FILE* pipe = popen((by + PLUMB_PROGRAM + " 2>&1 " + arguments).c_str(), "r");
  char text[4096];
  while (fgets(text, sizeof text, pipe) != nullptr) result.out += text;
  result.code = WEXITSTATUS(pclose(pipe));
  return result;
}

// On a terminal of so many columns, as a shell would start it: nothing is set but TERM and
// `variables`.
inline Said plumb_on_terminal(const std::string& arguments, unsigned short columns,
                              const std::string& variables = "TERM=xterm") {
  const winsize size{25, columns, 0, 0};
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    const std::string command = "exec env -i " + variables + " " PLUMB_PROGRAM " " + arguments;
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  Said result{-1, ""};
  char text[4096];
  for (ssize_t n = 0; (n = read(terminal, text, sizeof text)) > 0;) result.out.append(text, n);
  close(terminal);
  waitpid(child, &result.code, 0);
  result.code = WEXITSTATUS(result.code);
  std::erase(result.out, '\r');
  return result;
}

// One line, exit code 2.
inline void refused(const std::string& arguments, const std::string& because) {
  const Said r = plumb(arguments);
  EXPECT_EQ(r.code, 2) << arguments << "\n" << r.out;
  EXPECT_TRUE(r.out.starts_with("plumb: ")) << r.out;
  EXPECT_EQ(std::count(r.out.begin(), r.out.end(), '\n'), 1) << r.out;
  EXPECT_NE(r.out.find(because), std::string::npos) << r.out;
}

// A small model: a step takes milliseconds.
inline const std::string small_sizes =
    " --layers 2 --width 32 --heads 4 --hidden 64 --sequence 16 ";

// A folder of its own, gone again after the suite.
class InFolder : public testing::Test {
 protected:
  static std::filesystem::path& folder() {
    static std::filesystem::path path;
    return path;
  }
  static std::string at(const std::string& name) { return (folder() / name).string(); }
  static void make_folder(const std::string& name) {
    folder() = std::filesystem::temp_directory_path() / (name + std::to_string(getpid()));
    std::filesystem::remove_all(folder());
    std::filesystem::create_directories(folder());
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder()); }
};

}  // namespace plumb
