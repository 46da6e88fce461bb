#include "number/outcome.hpp"
#include "world/world.hpp"

namespace plumb::world {

World& mpi() {
  throw Failure(
      "this plumb was built without MPI; install libopenmpi-dev and openmpi-bin, remove build/ and "
      "build again, or use --world threads");
}

int ranks_of_mpi() {
  throw Failure(
      "this plumb was built without MPI; install libopenmpi-dev and openmpi-bin, remove build/ and "
      "build again, or leave out what asks for MPI");
}

LibrarySum mpi_all_reduce(std::span<const float>) { return {{}, ranks_of_mpi() > 0}; }

std::vector<std::string> mpi_share(const std::string& mine) { return {mine}; }

void leave_mpi() {}

}  // namespace plumb::world
