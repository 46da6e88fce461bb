#include "probe/command.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "number/outcome.hpp"

namespace plumb::probe {
namespace {

namespace fs = std::filesystem;

fs::path new_folder() {
  std::string folder = (fs::temp_directory_path() / "plumb-calibrate-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    throw Failure("cannot make a folder in " + fs::temp_directory_path().string() +
                  "; set TMPDIR to a place that can be written");
  }
  return folder;
}

std::string quoted(const fs::path& file) {
  std::string text = "'";
  for (const char c : file.string()) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

}  // namespace

Command::Command(std::string words, bool stays)
    : words_(std::move(words)), stays_(stays), folder_(new_folder()) {}

Command::~Command() {
  if (line_ >= 0) close(line_);
  if (child_ > 0) waitpid(child_, nullptr, 0);
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

fs::path Command::run(const std::map<std::string, trace::Shard>& asked) {
  fs::remove(out());
  write_shards(in(), asked);
  if (stays_) {
    ask();
  } else if (const int status =
                 std::system(fmt::format("{} {} {}", words_, quoted(in()), quoted(out())).c_str());
             status != 0) {
    ended(status);
  }
  return out();
}

void Command::start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw Failure("cannot start the command '" + words_ + "': no sockets are left");
  }
  line_ = ends[0];
  child_ = fork();
  if (child_ == 0) {
    dup2(ends[1], 0);
    dup2(ends[1], 1);
    execl("/bin/sh", "sh", "-c", words_.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  if (child_ < 0) throw Failure("cannot start the command '" + words_ + "': no processes are left");
}

void Command::ask() {
  if (child_ < 0) start();
  const std::string line = in().string() + "\t" + out().string() + "\n";
  char said = 0;
  bool well =
      send(line_, line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size());
  while (well && said != '\n') well = read(line_, &said, 1) == 1;
  if (well) return;
  int status = 0;
  close(std::exchange(line_, -1));  // it ends now if it has not
  waitpid(std::exchange(child_, -1), &status, 0);
  ended(status);
}

void Command::ended(int status) const {
  const std::string how =
      WIFEXITED(status) ? fmt::format("with {}", WEXITSTATUS(status)) : std::string("by a signal");
  throw Failure(fmt::format(
      "the command '{}' ended {}; it {}, with two files of the safetensors format", words_, how,
      stays_
          ? "is told IN and OUT, a tab between, by lines of its input, and answers each by a line"
          : "is called as COMMAND IN OUT"));
}

}  // namespace plumb::probe
