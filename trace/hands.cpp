#include "trace/hands.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace plumb::trace {

void by_hands(std::size_t threads, std::size_t n, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> failed(n);
  const auto run = [&] {
    for (std::size_t i = next++; i < n; i = next++) {
      try {
        work(i);
      } catch (...) {
        failed[i] = std::current_exception();
        next = n;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t t = 1; t < std::min(threads, n); ++t) others.emplace_back(run);
    run();
  }
  const auto first = std::ranges::find_if(failed, [](const auto& e) { return e != nullptr; });
  if (first != failed.end()) std::rethrow_exception(*first);
}

}  // namespace plumb::trace
