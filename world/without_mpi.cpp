#include "number/outcome.hpp"
#include "world/world.hpp"

namespace plumb::world {

World& mpi() {
  throw Failure(
      "this plumb was built without MPI; install libopenmpi-dev and openmpi-bin, remove build/ and "
      "build again, or use --world threads");
}

}  // namespace plumb::world
