#include "cli/collective.hpp"

#include <fmt/format.h>

#include "number/outcome.hpp"
#include "world/world.hpp"

namespace plumb::cli {
namespace {

std::vector<float> row_of(const Tensor& x, std::size_t r) { return {x.row(r), x.row(r) + x.cols}; }

}  // namespace

std::string words_of(const Collective& collective) {
  return fmt::format("{} of {} ranks, {}",
                     algorithm_names[static_cast<std::size_t>(collective.algorithm)],
                     collective.ranks, collective.wire.name);
}

JobCollective collective_of_job(std::size_t elements, unsigned seed) {
  JobCollective job;
  job.ranks = static_cast<std::size_t>(ranks_of_mpi());
  const auto mine = static_cast<std::size_t>(mpi().rank());
  job.first = mine == 0;
  if (job.ranks < 2) {
    throw Failure("one rank adds nothing up; start several: mpirun -n 4 plumb calibrate ...");
  }
  job.elements = (elements + job.ranks - 1) / job.ranks * job.ranks;
  const auto all_reduce = [&](const Tensor& ranks) {
    const LibrarySum sum = mpi_all_reduce(row_of(ranks, mine));
    job.differ = job.differ || sum.differ;
    Tensor y(1, ranks.cols);
    std::ranges::copy(sum.values, y.values.begin());
    return y;
  };
  job.found = collective_of(all_reduce, job.ranks, job.elements, seed);
  leave_mpi();
  return job;
}

void enter(const JobCollective& job, const std::string& source, Calibration& found) {
  const std::string what =
      fmt::format("all-reduce of {} numbers by {} ranks", job.elements, job.ranks);
  const CollectiveFound& is = job.found;
  if (!is.trees.empty()) {
    const std::string first = text_of(is.trees.front()), last = text_of(is.trees.back());
    found.observed.push_back({what, first == last ? first : first + " to " + last});
  }
  if (job.differ) found.observed.push_back({what, "ranks get different bits"});
  if (!is.is) {
    found.unknown.push_back({"collective", is.why});
    return;
  }
  found.card.collective = is.is;
  found.card.collective_provenance = Provenance::measured;
  found.card.collective_source = fmt::format("{}: {}, {}", source, what, is.how);
  found.validation.tables.push_back(is.held);
}

}  // namespace plumb::cli
