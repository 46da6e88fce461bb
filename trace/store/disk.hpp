// trace/store/disk.hpp: the one door through which what must outlive a crash is written: files,
// folders, names, and the syncs that bring each of them to the disk.
//
// CLAIM    What was finished and synced here is there after a crash, on any file system that keeps
//          fsync's promise; all else may be lost, torn or reordered. Who calls in which order is
//          up to the callers, and experiments/crash tries every order a crash may leave.
// ASSUMES  fsync tells the truth. Locks (file_lock.hpp) and files by which processes talk to each
//          other (probe/outside.cpp) need not outlive a crash and do not come through here.
// REFUSES  A disk that says no: std::filesystem::filesystem_error has the path and the reason; who
//          knows the final name makes a Failure of it. A folder of a file system that syncs none
//          (EINVAL) is as safe as that system makes it.
// COSTS    A sync waits for the disk. Without a recording, one load of a pointer an operation.
// TESTED   tests/trace/disk_test.cpp, tests/experiments/crash_test.cpp
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "trace/sees.hpp"

namespace plumb::trace {

// A file as a stream, at any place of which may be written. Until finish() nothing of it is safe.
// Throws if it cannot be opened.
class DiskFile : public std::ostream {
 public:
  // anew: the name must be free. append: made where it is not there.
  enum class How { anew, append };
  explicit DiskFile(const std::filesystem::path& file, How how = How::anew);
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;
  ~DiskFile() override;

  // Writes what is left, syncs and closes. Throws if any of this, or any write before it, went
  // wrong. Without the sync: for what checks itself when it is read (probe/answers.hpp).
  void finish();
  void finish_unsynced();

 private:
  class Buffer;
  std::unique_ptr<Buffer> buffer_;
};

// Makes the folders of a path that are not there, each of which then is on the disk.
void make_folders(const std::filesystem::path& folder);
// Makes one folder, whose name is on the disk when its parent is synced.
void make_folder(const std::filesystem::path& folder);
// Syncs the names in a folder and, below it, in all others. The files were synced by who wrote them.
void sync_names(const std::filesystem::path& folder);
// Gives a file or folder another name in the same folder, and brings that to the disk. What had the
// name is replaced.
void take_name(const std::filesystem::path& from, const std::filesystem::path& to);
// Removes a file, or a folder with all in it, which another thread may still fill; returns whether
// anything was there. This and a cut may be undone by a crash: what is removed is of no use, but
// does no harm.
bool take_away(const std::filesystem::path& path);
void cut_file(const std::filesystem::path& file, std::uint64_t size);

// One operation, as a recording is told it once it was done.
struct DiskStep {
  enum class Kind { create, write, cut, sync, make_folder, rename, remove, sync_folder };
  Kind kind;
  std::filesystem::path path;
  std::filesystem::path to = {};  // of a rename
  std::uint64_t at = 0;           // where a write begins; the size that a file is cut to
  std::string bytes = {};         // of a write
};

// While it lives every operation of this process is told, one at a time, whatever the thread.
// Syncs are told and not made: what is recorded crashes on paper. There is one at a time.
class DiskRecording {
 public:
  explicit DiskRecording(std::function<void(const DiskStep&)> told);
  DiskRecording(const DiskRecording&) = delete;
  DiskRecording& operator=(const DiskRecording&) = delete;
  ~DiskRecording();
};

}  // namespace plumb::trace
