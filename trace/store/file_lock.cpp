#include "trace/store/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "number/outcome.hpp"

namespace plumb::trace {
namespace {

// The owner before may have removed the file that was opened.
bool still_has(int file, const std::filesystem::path& path) {
  struct stat opened {
  }, named{};
  return fstat(file, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& file, const std::string& what, bool wait)
    : path_(file) {
  for (;;) {
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file_ < 0) {
      throw Failure("cannot write " + path_.string() + " (" +
                    std::generic_category().message(errno) +
                    "); choose a place that can be written");
    }
    int refused = 0;
    do {
      refused = flock(file_, wait ? LOCK_EX : LOCK_EX | LOCK_NB);
    } while (refused != 0 && errno == EINTR);
    if (refused == 0 && still_has(file_, path_)) return;
    const int why = errno;
    close(file_);
    if (refused == 0) continue;
    if (why == EWOULDBLOCK) {
      throw Failure(what +
                    " is being written by another process; wait until it ends, or name another "
                    "folder");
    }
    throw Failure("cannot lock " + path_.string() + " (" + std::generic_category().message(why) +
                  "); choose a place on a local disk");
  }
}

FileLock::~FileLock() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);  // while it is ours
  close(file_);
}

}  // namespace plumb::trace
