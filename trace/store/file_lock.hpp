// trace/store/file_lock.hpp: one process at a time. The lock is a file; it goes with its owner, and
// one that a killed process left locks nobody out.
// TESTED   tests/experiments/table_test.cpp
#pragma once

#include <filesystem>

#include "trace/sees.hpp"

namespace plumb::trace {

class FileLock {
 public:
  // Makes the file. `wait`: until the present owner is done; otherwise throws Failure if there is
  // one: "`what` is being written by another process". Throws Failure where no file can be made.
  FileLock(const std::filesystem::path& file, const std::string& what, bool wait = false);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace plumb::trace
