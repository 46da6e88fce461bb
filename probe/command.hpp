// probe/command.hpp: a command that reads one file of the safetensors format and writes another.
//
//   It is called as COMMAND IN OUT, once for each run; or, if it stays, it is started once, without
//   files, reads "IN<tab>OUT" from each line of its standard input, and writes one line, whatever it
//   says, when OUT is there. It ends when its input does.
//
// TESTED   tests/probe/outside_test.cpp
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>

#include "probe/sees.hpp"
#include "trace/store/safetensors.hpp"

namespace plumb::probe {

class Command {
 public:
  // Throws Failure if no folder can be made for its files.
  Command(std::string words, bool stays);
  ~Command();  // waits for a command that stays
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Returns what it wrote, until the next run. Throws Failure if it failed.
  std::filesystem::path run(const std::map<std::string, trace::Shard>& asked);

 private:
  std::filesystem::path in() const { return folder_ / "in.safetensors"; }
  std::filesystem::path out() const { return folder_ / "out.safetensors"; }
  void start();
  void ask();  // of a command that stays
  [[noreturn]] void ended(int status) const;

  std::string words_;
  bool stays_;
  std::filesystem::path folder_;
  pid_t child_ = -1;
  int line_ = -1;  // to and from it
};

}  // namespace plumb::probe
