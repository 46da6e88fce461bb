#include "cli/mpi_job.hpp"

#include <optional>

#include "cli/stop.hpp"
#include "number/outcome.hpp"
#include "world/world.hpp"

namespace plumb::cli {
namespace {

// In front of what a process gives: what it did, or why it ended.
constexpr char did = '.', ended = '!';

// Every process knows of it.
struct Agreed : Failure {
  using Failure::Failure;
};

}  // namespace

MpiJob::MpiJob()
    : rank_(static_cast<std::size_t>((ranks_of_mpi(), mpi().rank()))),
      size_(static_cast<std::size_t>(ranks_of_mpi())) {}

std::vector<std::string> MpiJob::exchange(const std::string& mine) const {
  return shared(did + mine);
}

std::vector<std::string> MpiJob::shared(const std::string& mine) const {
  std::vector<std::string> all = mpi_share(mine);
  for (const std::string& text : all) {
    if (text.front() == ended) throw Agreed(text.substr(1));
  }
  for (std::string& text : all) text.erase(0, 1);
  return all;
}

int MpiJob::run(const std::function<void()>& work, const std::function<int()>& tell) const {
  std::optional<Agreed> why;
  try {
    try {
      work();
      exchange("");  // is everybody through?
    } catch (const Agreed&) {
      throw;
    } catch (const std::exception& error) {  // the others wait for this process
      shared(ended + std::string(error.what()));
    }
  } catch (const Agreed& agreed) {
    why = agreed;
  }
  // mpirun stops all as soon as rank 0 returns other than 0, so rank 0 waits until the others would be silent.
  if (rank_ != 0) say_nothing_when_stopped();
  mpi_share("");
  if (rank_ != 0) return 0;
  if (why) throw *why;
  return tell();
}

}  // namespace plumb::cli
