// cli/mpi_job.hpp: one command by all processes of an MPI job: each does some of the work, and rank 0
// alone speaks.
//
// ERRORS   what fails in one process ends all: rank 0 throws Failure with the sentence, the others
//          return without a word.
// TESTED   tests/cli/check_mpi_test.cpp
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/sees.hpp"
#include "trace/hands.hpp"

namespace plumb::cli {

class MpiJob final : public Job {
 public:
  // Throws Failure if this program was built without MPI.
  MpiJob();
  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }
  std::vector<std::string> exchange(const std::string& mine) const override;

  // work() by all, then tell() by rank 0. Returns what tell() does; 0 in the others, whatever happened.
  int run(const std::function<void()>& work, const std::function<int()>& tell) const;

 private:
  // The same, of texts that say by their first character whether a process goes on.
  std::vector<std::string> shared(const std::string& mine) const;

  std::size_t rank_ = 0, size_ = 1;
};

}  // namespace plumb::cli
