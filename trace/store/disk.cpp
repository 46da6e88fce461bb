#include "trace/store/disk.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <stdexcept>
#include <streambuf>
#include <vector>

namespace plumb::trace {
namespace {

namespace fs = std::filesystem;
using Kind = DiskStep::Kind;
using Told = std::function<void(const DiskStep&)>;

constexpr std::size_t buffered = 1 << 16;

std::atomic<const Told*> recorder = nullptr;
std::mutex one_at_a_time;

bool recorded() { return recorder.load(std::memory_order_acquire) != nullptr; }

void tell(const DiskStep& step) {
  const std::lock_guard lock(one_at_a_time);
  if (const Told* told = recorder.load(std::memory_order_acquire)) (*told)(step);
}

[[noreturn]] void refuse(const fs::path& path, int why) {
  throw fs::filesystem_error("cannot write", path, std::error_code(why, std::generic_category()));
}

// The folder in which a name stands.
fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// Returns errno, or 0.
int sync_of(int file) {
  while (fsync(file) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

void sync_folder(const fs::path& folder) {
  if (!recorded()) {
    const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) refuse(folder, errno);
    const int why = sync_of(file);
    close(file);
    if (why != 0 && why != EINVAL) refuse(folder, why);
  }
  tell({Kind::sync_folder, folder});
}

int flags_of(DiskFile::How how) {
  const int both = O_WRONLY | O_CREAT | O_CLOEXEC;
  return how == DiskFile::How::anew ? both | O_EXCL : both | O_APPEND;
}

}  // namespace

class DiskFile::Buffer : public std::streambuf {
 public:
  Buffer(const fs::path& file, How how) : path_(file), held_(buffered) {
    const bool is_new = how == How::anew || !fs::exists(fs::symlink_status(file));
    file_ = open(file.c_str(), flags_of(how), 0666);
    why_ = file_ < 0 ? errno : 0;
    setp(held_.data(), held_.data() + held_.size());
    if (file_ < 0) return;
    if (how == How::append) at_ = static_cast<std::uint64_t>(lseek(file_, 0, SEEK_END));
    if (is_new) tell({Kind::create, path_});
  }
  ~Buffer() override { shut(); }

  void expect_fine() const {
    if (why_ != 0) refuse(path_, why_);
  }
  void finish(bool synced) {
    flush();
    if (why_ == 0 && synced) {
      if (!recorded()) why_ = sync_of(file_);
      if (why_ == 0) tell({Kind::sync, path_});
    }
    shut();
    expect_fine();
  }

 protected:
  int_type overflow(int_type c) override {
    if (!flush()) return traits_type::eof();
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }
  // Long pieces are not copied.
  std::streamsize xsputn(const char* text, std::streamsize n) override {
    if (n < epptr() - pptr()) return std::streambuf::xsputn(text, n);
    return flush() && put(text, static_cast<std::size_t>(n)) ? n : 0;
  }
  int sync() override { return flush() ? 0 : -1; }
  pos_type seekpos(pos_type to, std::ios_base::openmode) override {
    if (!flush()) return pos_type(off_type(-1));
    at_ = static_cast<std::uint64_t>(off_type(to));
    return to;
  }

 private:
  bool flush() {
    const bool all = put(pbase(), static_cast<std::size_t>(pptr() - pbase()));
    setp(held_.data(), held_.data() + held_.size());
    return all;
  }
  // pwrite appends, whatever its place, where a file was opened to append.
  bool put(const char* text, std::size_t n) {
    if (why_ != 0) return false;
    const DiskStep step{
        Kind::write, path_, {}, at_, recorded() ? std::string(text, n) : std::string()};
    for (std::size_t done = 0; done < n;) {
      const ssize_t some = pwrite(file_, text + done, n - done, static_cast<off_t>(at_));
      if (some < 0 && errno == EINTR) continue;
      if (some <= 0) {
        why_ = some < 0 ? errno : EIO;
        return false;
      }
      done += static_cast<std::size_t>(some);
      at_ += static_cast<std::uint64_t>(some);
    }
    if (n > 0) tell(step);
    return true;
  }
  void shut() {
    if (file_ >= 0 && close(file_) != 0 && why_ == 0) why_ = errno;
    file_ = -1;
  }

  fs::path path_;
  std::vector<char> held_;
  int file_ = -1;
  int why_ = 0;  // errno of the first thing that went wrong
  std::uint64_t at_ = 0;
};

DiskFile::DiskFile(const fs::path& file, How how)
    : std::ostream(nullptr), buffer_(std::make_unique<Buffer>(file, how)) {
  rdbuf(buffer_.get());
  buffer_->expect_fine();
}

DiskFile::~DiskFile() = default;

void DiskFile::finish() { buffer_->finish(true); }

void DiskFile::finish_unsynced() { buffer_->finish(false); }

void make_folder(const fs::path& folder) {
  if (fs::create_directory(folder)) tell({Kind::make_folder, folder});
}

void make_folders(const fs::path& folder) {
  if (folder.empty() || fs::is_directory(folder)) return;
  if (!folder.has_filename()) return make_folders(folder.parent_path());  // a slash at its end
  if (fs::exists(folder)) refuse(folder, ENOTDIR);
  make_folders(folder.parent_path());
  make_folder(folder);
  sync_folder(folder_of(folder));
}

void sync_names(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && !entry.is_symlink()) sync_names(entry.path());
  }
  sync_folder(folder);
}

void take_name(const fs::path& from, const fs::path& to) {
  fs::rename(from, to);
  tell({Kind::rename, from, to});
  sync_folder(folder_of(to));
}

bool take_away(const fs::path& path) {
  std::error_code error;
  bool any = false;
  for (int tries = 0; tries < 100 && fs::exists(fs::symlink_status(path, error)); ++tries) {
    any = fs::remove_all(path, error) > 0 || any;
  }
  if (any) tell({Kind::remove, path});
  return any;
}

void cut_file(const fs::path& file, std::uint64_t size) {
  fs::resize_file(file, size);
  tell({Kind::cut, file, {}, size});
}

DiskRecording::DiskRecording(Told told) {
  const std::lock_guard lock(one_at_a_time);
  if (recorded()) throw std::logic_error("the disk is recorded already");
  recorder.store(new Told(std::move(told)), std::memory_order_release);
}

DiskRecording::~DiskRecording() {
  const std::lock_guard lock(one_at_a_time);
  delete recorder.exchange(nullptr, std::memory_order_acq_rel);
}

}  // namespace plumb::trace
