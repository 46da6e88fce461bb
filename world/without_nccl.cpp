#include "number/outcome.hpp"
#include "world/world.hpp"

namespace plumb::world {

std::string why_no_nccl() {
  return "this plumb was built without NCCL; install the CUDA Toolkit and NCCL, remove build/ and "
         "build again, or use --world threads";
}

World& nccl() { throw Failure(why_no_nccl()); }

}  // namespace plumb::world
