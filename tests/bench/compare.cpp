// Comparing two tensors with the six statistics of trace/difference.hpp against reading them:
// an exclusive or of two mapped files, in turn (round-robin), thread CPU time, page cache warm.
// Goal: at least 0.7 of the speed of the read.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "number/philox.hpp"
#include "tests/bench/clock.hpp"
#include "tests/support/rooms.hpp"
#include "trace/difference.hpp"

namespace plumb {
namespace {

constexpr std::size_t elements = std::size_t(32) << 20;  // 128 MiB a file: far beyond the caches

// A file of FP32 values, mapped; gone with its mapping.
class Mapped {
 public:
  explicit Mapped(const std::vector<float>& values) : bytes_(values.size() * sizeof(float)) {
    std::string name = "/tmp/plumb-compare-XXXXXX";
    const int file = mkstemp(name.data());
    unlink(name.c_str());
    std::size_t done = 0;
    while (done < bytes_) {
      const auto n =
          write(file, reinterpret_cast<const char*>(values.data()) + done, bytes_ - done);
      if (n <= 0) throw std::runtime_error("no room for the benchmark's files");
      done += static_cast<std::size_t>(n);
    }
    at_ = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (at_ == MAP_FAILED) throw std::runtime_error("mmap failed");
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() { munmap(at_, bytes_); }
  std::span<const float> values() const {
    return {static_cast<const float*>(at_), bytes_ / sizeof(float)};
  }

 private:
  std::size_t bytes_;
  void* at_;
};

std::uint64_t exclusive_or(std::span<const float> a, std::span<const float> b) {
  const auto* x = reinterpret_cast<const std::uint64_t*>(a.data());
  const auto* y = reinterpret_cast<const std::uint64_t*>(b.data());
  std::array<std::uint64_t, 16> lanes{};
  for (std::size_t i = 0; i < a.size() / 2; i += lanes.size()) {
    for (std::size_t l = 0; l < lanes.size(); ++l) lanes[l] ^= x[i + l] ^ y[i + l];
  }
  std::uint64_t all = 0;
  for (const std::uint64_t v : lanes) all ^= v;
  return all;
}

void compare(benchmark::State& state) {
  std::vector<float> a(elements), b(elements);
  for (std::size_t e = 0; e < elements; ++e) {
    b[e] = static_cast<float>(uniform(1, e) - 0.5);
    a[e] = b[e] * static_cast<float>(1 + 1e-2 * (uniform(2, e) - 0.5));
  }
  const Mapped first(a), second(b);
  std::vector<double> ratios, speeds;
  benchmark::DoNotOptimize(exclusive_or(first.values(), second.values()));  // warm
  for (auto _ : state) {
    const double start = cpu_seconds();
    benchmark::DoNotOptimize(exclusive_or(first.values(), second.values()));
    const double middle = cpu_seconds();
    benchmark::DoNotOptimize(difference(first.values(), second.values()));
    const double end = cpu_seconds();
    ratios.push_back((middle - start) / (end - middle));
    speeds.push_back(2e-9 * elements * sizeof(float) / (end - middle));
  }
  state.counters["speed/read"] = median(ratios);
  state.counters["GB/s"] = median(speeds);
}

BENCHMARK(compare)->Iterations(11)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plumb
