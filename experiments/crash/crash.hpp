// experiments/crash/crash.hpp: a writer is stopped by a crash at each of its steps, and what each
// crash may leave is opened again by the shipped readers, and gone on with.
//
// In the manner of Witcher, whose crashes are judged by the outputs of a program without one
// [Witcher], over every state that disk_model.hpp allows.
//
//   complete   every result is there, with the bytes that it has without a crash
//   resumed    some were not there; running again leaves every file with those bytes
//   reported   a reader, or running again, refuses in a sentence, and nothing was relied on yet
//   undone     a result that a user could rely on is gone, or is refused
//   silent     a result is accepted and has other bytes, now or after running again; or what lies
//              there unfinished is not named (left_beside)
//
// ASSUMES  After a crash the writer has another process number. Two states whose 64-bit hashes agree
//          are taken for one.
// COSTS    a state some files in memory (/dev/shm) or the temporary folder; nothing is synced
// TESTED   tests/experiments/crash_test.cpp
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "experiments/crash/disk_model.hpp"
#include "experiments/crash/saved.hpp"
#include "experiments/sees.hpp"

namespace plumb::experiments {

enum class AfterCrash { complete, resumed, reported, undone, silent };

struct CrashTally {
  std::size_t moments = 0;  // at which it was stopped: before, between and after all steps
  std::size_t states = 0;   // that differ, in their files or in what was relied on
  std::size_t drawn = 0;    // of which a draw came upon first
  std::map<AfterCrash, std::size_t> after;
  std::string first_silent;  // what was found in one of them

  std::size_t of(AfterCrash how) const { return after.contains(how) ? after.at(how) : 0; }
  std::size_t bad() const { return of(AfterCrash::undone) + of(AfterCrash::silent); }
};

class Crash {
 public:
  // Writes it once, and takes down every step.
  explicit Crash(Saved saved);
  ~Crash();
  Crash(const Crash&) = delete;
  Crash& operator=(const Crash&) = delete;

  std::size_t steps() const { return steps_.size(); }
  // Which of the steps are syncs.
  std::vector<std::size_t> syncs() const;
  // Every moment and every state. `made`: is a step that is a sync made, or only said to be?
  CrashTally tried(const DiskModel::Effort& effort,
                   const std::function<bool(std::size_t step)>& made);

 private:
  AfterCrash after(const Tree& tree, std::size_t relied_on);
  AfterCrash gone_on();
  void materialise(const Tree& tree) const;
  bool names_what_was_left() const;

  Saved saved_;
  std::filesystem::path folder_;
  std::vector<DiskStep> steps_;
  std::vector<std::pair<std::size_t, std::string>> kept_;  // after so many steps, which result
  std::map<std::string, Found> finished_;
  Tree finished_files_;
  std::string why_;  // the last state was silent
  std::map<std::pair<std::size_t, std::size_t>, AfterCrash> known_;
};

}  // namespace plumb::experiments
