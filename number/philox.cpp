#include "number/philox.hpp"

namespace plumb {

// Stands here, not in the header: a compiler that sees how the keys come about makes them anew in
// each round instead of reading them.
RandomHalves::RandomHalves(std::uint64_t key) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (auto& [first, second] : keys_) {
    first = k0;
    second = k1;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
}

}  // namespace plumb
