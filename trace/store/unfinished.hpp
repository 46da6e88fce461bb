// trace/store/unfinished.hpp: what a process is making and has not finished. It has a name of its
// own beside the final one, NAME.partial-PID, and takes the final one when it is whole.
// TESTED   tests/trace/unfinished_test.cpp
#pragma once

#include <filesystem>
#include <mutex>
#include <string_view>
#include <vector>

#include "trace/sees.hpp"

namespace plumb::trace {

// Goes again, whatever it has become, unless it was finished.
class Unfinished {
 public:
  // Makes nothing. Throws Failure if something has the unfinished name.
  explicit Unfinished(const std::filesystem::path& final);
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished();

  const std::filesystem::path& path() const { return path_; }
  // Brings the names below it to the disk, then takes the final name, and that, too. Throws
  // std::filesystem::filesystem_error.
  void finish();

 private:
  std::filesystem::path final_, path_;
};

// Writes a file that is the old one or the new one at any time. A link is not followed but
// replaced. Throws Failure; the old file then stays.
void write_whole(const std::filesystem::path& file, std::string_view text);

// Throws Failure: a file cannot be written, why, and what to do.
[[noreturn]] void refuse_unwritable(const std::filesystem::path& file,
                                    const std::filesystem::filesystem_error& error);

struct Discarded {
  std::vector<std::filesystem::path> paths;
  std::unique_lock<std::mutex> nobody_goes_on;  // while it is held nothing is begun or finished
};
// Removes what this process has not finished. Any thread may ask.
Discarded discard_unfinished();

// What processes that are gone have left unfinished in the folder where `final` lies.
std::vector<std::filesystem::path> left_beside(const std::filesystem::path& final);

}  // namespace plumb::trace
