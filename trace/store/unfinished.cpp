#include "trace/store/unfinished.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <mutex>
#include <set>
#include <string>

#include "number/outcome.hpp"
#include "trace/store/disk.hpp"

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
  take_away(path_);
}

void Unfinished::finish() {
  if (fs::is_directory(fs::symlink_status(path_))) sync_names(path_);
  const std::lock_guard lock(known().mutex);
  take_name(path_, final_);
}

void write_whole(const fs::path& file, std::string_view text) {
  Unfinished unfinished(file);
  try {
    DiskFile out(unfinished.path());
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    out.finish();
    unfinished.finish();
  } catch (const fs::filesystem_error& error) {
    refuse_unwritable(file, error);
  }
}

void refuse_unwritable(const fs::path& file, const fs::filesystem_error& error) {
  throw Failure("cannot write " + file.string() + " (" + error.code().message() +
                "); choose a place that can be written");
}

Discarded discard_unfinished() {
  Discarded gone{{}, std::unique_lock(known().mutex)};
  for (const fs::path& path : known().paths) {
    if (take_away(path)) gone.paths.push_back(path);
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
