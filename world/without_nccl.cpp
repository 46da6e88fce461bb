#include "bounds/outcome.hpp"
#include "world/world.hpp"

namespace plumb {

World& nccl() {
  throw Failure(
      "this plumb was built without NCCL; install the CUDA Toolkit and NCCL, remove build/ and "
      "build again, or use --world threads");
}

}  // namespace plumb
