// Rounding in place against copying the same floats, in turn (round-robin), thread CPU time. Goals:
// nearest even to bf16, e4m3fn, e5m2 at least 0.85 of memcpy beyond the caches, 0.7 within;
// stochastic, independent of sharding, at least 0.3 within.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "number/philox.hpp"
#include "number/rounding.hpp"
#include "tests/bench/clock.hpp"
#include "tests/support/rooms.hpp"

namespace plumb {
namespace {

void rounding(benchmark::State& state, const Format& format, bool stochastic) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const std::size_t repeats = std::max<std::size_t>((std::size_t(1) << 24) / n, 1);
  std::vector<float> x(n), y(n);
  for (std::size_t e = 0; e < n; ++e) x[e] = static_cast<float>(uniform(1, e) - 0.5);
  y = x;
  std::vector<double> ratios;
  for (auto _ : state) {
    const double start = cpu_seconds();
    for (std::size_t r = 0; r < repeats; ++r) {
      std::memcpy(y.data(), x.data(), n * sizeof(float));
      benchmark::ClobberMemory();
    }
    const double middle = cpu_seconds();
    for (std::size_t r = 0; r < repeats; ++r) {
      if (stochastic) {
        round_stochastically(y, format, r);
      } else {
        round_in_place(y, format);
      }
      benchmark::ClobberMemory();
    }
    ratios.push_back((middle - start) / (cpu_seconds() - middle));
  }
  state.counters["speed/memcpy"] = median(ratios);
}

constexpr int cached = 1 << 15, beyond = 1 << 25;
BENCHMARK_CAPTURE(rounding, bf16, bf16, false)->Arg(cached)->Arg(beyond)->Iterations(7);
BENCHMARK_CAPTURE(rounding, e4m3fn, e4m3fn, false)->Arg(cached)->Arg(beyond)->Iterations(7);
BENCHMARK_CAPTURE(rounding, e5m2, e5m2, false)->Arg(cached)->Arg(beyond)->Iterations(7);
BENCHMARK_CAPTURE(rounding, bf16_stochastic, bf16, true)->Arg(cached)->Arg(beyond)->Iterations(7);
BENCHMARK_CAPTURE(rounding, e4m3fn_stochastic, e4m3fn, true)
    ->Arg(cached)
    ->Arg(beyond)
    ->Iterations(7);

}  // namespace
}  // namespace plumb
