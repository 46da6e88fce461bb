// trace/hands.hpp: work that does not depend on other work, on several threads, and where a job has
// several processes on all of them. Results are kept by number, so that they depend on neither.
//
// Processes of a job do the same in the same order. Each does some of the work, and all get all
// results: so every process goes on with the same numbers, to the last bit.
//
// TESTED   tests/trace/hands_test.cpp, tests/cli/check_mpi_test.cpp
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "trace/sees.hpp"

namespace plumb::trace {

// The processes of a job, this one among them.
class Job {
 public:
  virtual ~Job() = default;
  virtual std::size_t rank() const = 0;
  virtual std::size_t size() const = 0;
  // Waits for everybody. Returns what each gave, by rank, to all of them.
  virtual std::vector<std::string> exchange(const std::string& mine) const = 0;
};

struct Hands {
  std::size_t threads = 1;
  const Job* job = nullptr;  // absent: this process does all
};

// Calls work(i) for each i below n, small i first. Throws what the smallest i threw.
void by_hands(std::size_t threads, std::size_t n, const std::function<void(std::size_t)>& work);

// What is to be done, and how its result goes to another process.
struct Task {
  std::size_t n;
  std::function<void(std::size_t)> work;
  std::function<std::string(std::size_t)> pack;
  std::function<void(std::size_t, const std::string&)> unpack;
};
// The same. Where somebody's work failed every process throws Failure with the sentence of the
// lowest rank's.
void by_hands(const Hands& hands, const Task& task);

// work(i) for each i below n. packed() and unpack() of T: trace/store/carried.hpp.
template <class T, class Work>
std::vector<T> results(const Hands& hands, std::size_t n, const Work& work) {
  std::vector<T> all(n);
  by_hands(hands, {n, [&](std::size_t i) { all[i] = work(i); },
                   [&](std::size_t i) { return packed(all[i]); },
                   [&](std::size_t i, const std::string& text) { unpack(text, all[i]); }});
  return all;
}

}  // namespace plumb::trace
