#include "trace/store/unfinished.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <mutex>
#include <set>
#include <string>

#include "number/outcome.hpp"

namespace plumb::trace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view mark = ".partial-";

struct Known {
  std::mutex mutex;
  std::set<fs::path> paths;
};

Known& known() {
  static Known all;
  return all;
}

// A thread may go on to write into a folder that is being removed.
bool removed(const fs::path& path) {
  std::error_code error;
  bool any = false;
  for (int tries = 0; tries < 100 && fs::exists(fs::symlink_status(path, error)); ++tries) {
    any = fs::remove_all(path, error) > 0 || any;
  }
  return any;
}

// The process of NAME.partial-PID; 0: no such name.
pid_t maker_of(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::size_t at = name.rfind(mark);
  if (at == std::string::npos) return 0;
  const char* end = name.data() + name.size();
  pid_t pid = 0;
  const auto read = std::from_chars(name.data() + at + mark.size(), end, pid);
  return read.ec == std::errc() && read.ptr == end && pid > 0 ? pid : 0;
}

// Returns whether all was written.
bool written(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(file, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace

Unfinished::Unfinished(const fs::path& final)
    : final_(final), path_(final.string() + std::string(mark) + std::to_string(getpid())) {
  if (fs::exists(fs::symlink_status(path_))) {
    throw Failure(path_.string() + " is in the way; remove it or choose another name");
  }
  const std::lock_guard lock(known().mutex);
  known().paths.insert(path_);
}

Unfinished::~Unfinished() {
  {
    const std::lock_guard lock(known().mutex);
    known().paths.erase(path_);
  }
  removed(path_);
}

void Unfinished::finish() {
  const std::lock_guard lock(known().mutex);
  fs::rename(path_, final_);
}

void write_whole(const fs::path& file, std::string_view text) {
  Unfinished unfinished(file);
  const int out = open(unfinished.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  const bool whole = out >= 0 && written(out, text);
  if (out < 0 || close(out) != 0 || !whole) {
    const std::string why = std::generic_category().message(errno);
    throw Failure("cannot write " + file.string() + " (" + why +
                  "); choose a place that can be written");
  }
  try {
    unfinished.finish();
  } catch (const fs::filesystem_error& error) {
    throw Failure("cannot write " + file.string() + " (" + error.code().message() +
                  "); choose a place that can be written");
  }
}

Discarded discard_unfinished() {
  Discarded gone{{}, std::unique_lock(known().mutex)};
  for (const fs::path& path : known().paths) {
    if (removed(path)) gone.paths.push_back(path);
  }
  return gone;
}

std::vector<fs::path> left_beside(const fs::path& final) {
  std::vector<fs::path> left;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::absolute(final).parent_path(), error)) {
    const pid_t maker = maker_of(entry.path());
    if (maker != 0 && kill(maker, 0) != 0 && errno == ESRCH) left.push_back(entry.path());
  }
  std::ranges::sort(left);
  return left;
}

}  // namespace plumb::trace
