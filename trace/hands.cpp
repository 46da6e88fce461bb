#include "trace/hands.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <thread>

#include "number/outcome.hpp"

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

namespace {

// Of one process: what it did, each result behind its number, or why it could not.
constexpr char did = '+', failed = '-';

std::string share_of(const Hands& hands, const Task& task) {
  const std::size_t rank = hands.job->rank(), size = hands.job->size();
  const std::size_t mine = task.n / size + (rank < task.n % size ? 1 : 0);
  try {
    by_hands(hands.threads, mine, [&](std::size_t k) { task.work(rank + k * size); });
  } catch (const std::exception& error) {
    return failed + std::string(error.what());
  }
  std::string all(1, did);
  for (std::size_t i = rank; i < task.n; i += size) {
    const std::string one = task.pack(i);
    const std::uint64_t length = one.size();
    all.append(reinterpret_cast<const char*>(&length), sizeof length);
    all += one;
  }
  return all;
}

void take_share(const std::string& share, std::size_t rank, std::size_t size, const Task& task) {
  std::size_t at = 1;
  for (std::size_t i = rank; i < task.n; i += size) {
    std::uint64_t length = 0;
    std::memcpy(&length, share.data() + at, sizeof length);
    at += sizeof length;
    task.unpack(i, share.substr(at, length));
    at += length;
  }
}

}  // namespace

void by_hands(const Hands& hands, const Task& task) {
  if (hands.job == nullptr) return by_hands(hands.threads, task.n, task.work);
  const std::vector<std::string> shares = hands.job->exchange(share_of(hands, task));
  for (const std::string& share : shares) {
    if (share.front() == failed) throw Failure(share.substr(1));
  }
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    if (rank != hands.job->rank()) take_share(shares[rank], rank, shares.size(), task);
  }
}

}  // namespace plumb::trace
