// The cost of bit-exact emulation of a matrix unit: H100, BF16, against a plain loop and
// the reference backend, in turn (round-robin), thread CPU time; and its bound against both.
#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "bounds/mma.hpp"
#include "kernels/backend.hpp"
#include "kernels/mma/product.hpp"
#include "number/philox.hpp"
#include "number/rounding.hpp"
#include "tests/bench/clock.hpp"
#include "tests/support/rooms.hpp"

namespace plumb {
namespace {

// Three loops, one chain an element: what a kernel is before anybody makes it fast.
void plain_loop(const Tensor& a, const Tensor& b, Tensor& c) {
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < b.cols; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < a.cols; ++k) sum = std::fma(a(i, k), b(k, j), sum);
      c(i, j) = sum;
    }
  }
}

void emulation(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  Tensor a(n, n), b(n, n), c(n, n);
  for (std::size_t e = 0; e < a.size(); ++e) {
    a.values[e] = static_cast<float>(uniform(1, e) - 0.5);
    b.values[e] = static_cast<float>(uniform(2, e) - 0.5);
  }
  round_in_place(a.values, bf16);
  round_in_place(b.values, bf16);
  const Mma unit = *find_machine("h100")->mma(bf16);
  const Matrix<double> wide_a = converted<double>(a), wide_b = converted<double>(b);
  std::vector<double> to_loop, to_backend, bound, rate;
  for (auto _ : state) {
    const double first = cpu_seconds();
    plain_loop(a, b, c);
    benchmark::DoNotOptimize(c.values.data());
    const double start = cpu_seconds();
    find_backend("reference").gemm(view(a), view(b), c.values.data(), n, false);
    benchmark::DoNotOptimize(c.values.data());
    const double plain = cpu_seconds();
    benchmark::DoNotOptimize(mma_product(view(a), view(b), unit));
    const double done = cpu_seconds();
    benchmark::DoNotOptimize(mma_errors(view(wide_a), view(wide_b), unit).worst);
    const double end = cpu_seconds();
    to_loop.push_back((done - plain) / (start - first));
    to_backend.push_back((done - plain) / (plain - start));
    bound.push_back((end - done) / (done - plain));
    rate.push_back(1e-6 * static_cast<double>(n * n * n) / (done - plain));
  }
  state.counters["emulation/loop"] = median(to_loop);
  state.counters["emulation/backend"] = median(to_backend);
  state.counters["bound/emulation"] = median(bound);
  state.counters["M products/s"] = median(rate);
}

BENCHMARK(emulation)->Arg(256)->Iterations(7)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plumb
