#include "experiments/crash/crash.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <stdexcept>

#include "number/outcome.hpp"
#include "trace/store/unfinished.hpp"

namespace plumb::experiments {
namespace {

namespace fs = std::filesystem;
using Kind = DiskStep::Kind;

constexpr const char* nobody = "4194305";  // one more than Linux gives to a process

// As a disk does: nothing is kept of it here.
void ignore(const DiskStep&) {}

// In memory, where there is such a place: nothing here has to last.
fs::path new_folder() {
  const fs::path memory = "/dev/shm";
  const bool is_there = fs::is_directory(memory) && access(memory.c_str(), W_OK) == 0;
  std::string name =
      ((is_there ? memory : fs::temp_directory_path()) / "plumb-crash-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw Failure("cannot make a folder as " + name);
  return name;
}

void empty(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) fs::remove_all(entry.path());
}

// Unfinished names are those of a process that is gone.
std::string left_by_nobody(std::string path) {
  const std::string ours = ".partial-" + std::to_string(getpid());
  for (std::size_t at = path.find(ours); at != path.npos; at = path.find(ours, at + 1)) {
    path.replace(at + 9, ours.size() - 9, nobody);
  }
  return path;
}

std::size_t hash_of(const Tree& tree) {
  std::string all;
  for (const auto& [path, bytes] : tree) {
    all += path + '\0' + std::to_string(bytes.size()) + '\0' + bytes;
  }
  return std::hash<std::string>()(all);
}

bool equal(const Found& a, const Found& b) { return a.refused.empty() && a.bytes == b.bytes; }

}  // namespace

Crash::Crash(Saved saved) : saved_(std::move(saved)), folder_(new_folder()) {
  DiskModel disk(folder_);
  {
    const DiskRecording recording([&](const DiskStep& step) {
      steps_.push_back(step);
      disk.apply(step);
    });
    saved_.write(folder_,
                 [&](const std::string& result) { kept_.emplace_back(steps_.size(), result); });
  }
  finished_ = saved_.read(folder_);
  finished_files_ = disk.now();
  if (finished_files_ != files_below(folder_)) {
    throw std::logic_error(saved_.name + " writes what the disk is not told of");
  }
  for (const auto& [at, result] : kept_) {
    if (!finished_.contains(result)) throw std::logic_error(result + " is kept and not read");
  }
}

Crash::~Crash() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::vector<std::size_t> Crash::syncs() const {
  std::vector<std::size_t> all;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const Kind kind = steps_[s].kind;
    if (kind == Kind::sync || kind == Kind::sync_folder) all.push_back(s);
  }
  return all;
}

CrashTally Crash::tried(const DiskModel::Effort& effort,
                        const std::function<bool(std::size_t)>& made) {
  CrashTally tally;
  std::set<std::pair<std::size_t, std::size_t>> seen;
  DiskModel disk(folder_);
  for (std::size_t moment = 0; moment <= steps_.size(); ++moment) {
    if (moment > 0) disk.apply(steps_[moment - 1], made(moment - 1));
    ++tally.moments;
    const auto is_relied_on = [&](const auto& kept) { return kept.first <= moment; };
    const auto relied_on = static_cast<std::size_t>(std::ranges::count_if(kept_, is_relied_on));
    disk.states(effort, [&](const Tree& tree, bool drawn) {
      const std::pair key(hash_of(tree), relied_on);
      if (!seen.insert(key).second) return;
      ++tally.states;
      tally.drawn += drawn ? 1 : 0;
      if (!known_.contains(key)) known_[key] = after(tree, relied_on);
      const AfterCrash how = known_.at(key);
      ++tally.after[how];
      if (how == AfterCrash::silent && tally.first_silent.empty()) tally.first_silent = why_;
    });
  }
  return tally;
}

void Crash::materialise(const Tree& tree) const {
  empty(folder_);
  for (const auto& [path, bytes] : tree) {
    const fs::path at = folder_ / left_by_nobody(path);
    if (path.ends_with('/')) {
      fs::create_directories(at);
    } else {
      std::ofstream(at, std::ios::binary) << bytes;
    }
  }
}

bool Crash::names_what_was_left() const {
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    const fs::path& path = entry.path();
    if (path.filename().string().find(".partial-") == std::string::npos) continue;
    if (std::ranges::count(left_beside(path.parent_path() / "next"), path) == 0) return false;
  }
  return true;
}

// What the results are after a crash in which so many had been relied on.
AfterCrash Crash::after(const Tree& tree, std::size_t relied_on) {
  materialise(tree);
  const auto found = saved_.read(folder_);
  bool refused = false;
  for (const auto& [name, result] : found) {
    refused = refused || !result.refused.empty();
    if (!result.refused.empty()) continue;
    if (finished_.contains(name) && equal(result, finished_.at(name))) continue;
    why_ = name + " is accepted and has other bytes";
    return AfterCrash::silent;
  }
  if (!names_what_was_left()) {
    why_ = "what was left unfinished is not named";
    return AfterCrash::silent;
  }
  for (std::size_t k = 0; k < relied_on; ++k) {
    const auto at = found.find(kept_[k].second);
    if (at == found.end() || !at->second.refused.empty()) return AfterCrash::undone;
  }
  if (refused) return AfterCrash::reported;
  return found.size() == finished_.size() ? AfterCrash::complete : gone_on();
}

// The same after the writer ran again.
AfterCrash Crash::gone_on() {
  try {
    const DiskRecording recording(ignore);  // whose syncs take no time
    saved_.write(folder_, [](const std::string&) {});
  } catch (const Failure&) {
    return AfterCrash::reported;
  }
  const Tree files = files_below(folder_);
  for (const auto& [path, bytes] : finished_files_) {
    const auto at = files.find(path);
    if (at != files.end() && at->second == bytes) continue;
    why_ = path + " has other bytes after running again";
    return AfterCrash::silent;
  }
  return AfterCrash::resumed;
}

}  // namespace plumb::experiments
