// The cost of a trustworthy answer: products with a certificate and with twice the bits, against a
// loop of MPFR (113 bits, operands converted beforehand), Arb's matrix product (where installed),
// and the FP64 and FP32 products they stand beside; softmax and layer norm rows against MPFR.
// In turn (round-robin), thread CPU time, medians of ratios.
#include <benchmark/benchmark.h>
#include <mpfr.h>
#if __has_include(<arb_mat.h>)
#include <arb_mat.h>
#endif

#include <vector>

#include "bounds/operation.hpp"
#include "bounds/proof/certified.hpp"
#include "bounds/proof/exact.hpp"
#include "kernels/backend.hpp"
#include "number/philox.hpp"
#include "number/rounding.hpp"
#include "tests/bench/clock.hpp"
#include "tests/support/rooms.hpp"

namespace plumb {
namespace {

double normal(std::uint64_t key, std::uint64_t e) {  // nearly: twelve uniforms
  double sum = -6;
  for (std::uint64_t i = 0; i < 12; ++i) sum += uniform(key + i, e);
  return sum;
}

Matrix<double> matrix(std::size_t n, const Format& format, std::uint64_t key) {
  Matrix<double> m(n, n);
  for (std::size_t e = 0; e < m.size(); ++e) m.values[e] = round_to(normal(key, e), format);
  return m;
}

// Two rows of the product, element by element.
double mpfr_seconds_per_row(const Matrix<double>& a, const Matrix<double>& b) {
  const std::size_t n = a.rows;
  std::vector<mpfr_t> wide(n * n), row(n);
  for (std::size_t e = 0; e < n * n; ++e) {  // by columns, as the loop reads them
    mpfr_init2(wide[e], 53);
    mpfr_set_d(wide[e], b(e % n, e / n), MPFR_RNDN);
  }
  for (std::size_t k = 0; k < n; ++k) mpfr_init2(row[k], 53);
  mpfr_t sum, product;
  mpfr_init2(sum, 113);
  mpfr_init2(product, 113);
  constexpr std::size_t rows = 2;
  const double start = cpu_seconds();
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t k = 0; k < n; ++k) mpfr_set_d(row[k], a(i, k), MPFR_RNDN);
    for (std::size_t j = 0; j < n; ++j) {
      mpfr_set_zero(sum, 1);
      for (std::size_t k = 0; k < n; ++k) {
        mpfr_mul(product, row[k], wide[j * n + k], MPFR_RNDN);
        mpfr_add(sum, sum, product, MPFR_RNDN);
      }
      benchmark::DoNotOptimize(mpfr_get_d(sum, MPFR_RNDN));
    }
  }
  const double seconds = cpu_seconds() - start;
  for (auto* numbers : {&wide, &row}) {
    for (mpfr_t& x : *numbers) mpfr_clear(x);
  }
  mpfr_clears(sum, product, static_cast<mpfr_ptr>(nullptr));
  return seconds / rows;
}

double arb_seconds([[maybe_unused]] const Matrix<double>& a,
                   [[maybe_unused]] const Matrix<double>& b) {
#if __has_include(<arb_mat.h>)
  const auto n = static_cast<slong>(a.rows);
  arb_mat_t x, y, z;
  arb_mat_init(x, n, n);
  arb_mat_init(y, n, n);
  arb_mat_init(z, n, n);
  for (slong i = 0; i < n; ++i) {
    for (slong j = 0; j < n; ++j) {
      const auto e = static_cast<std::size_t>(i * n + j);
      arb_set_d(arb_mat_entry(x, i, j), a.values[e]);
      arb_set_d(arb_mat_entry(y, i, j), b.values[e]);
    }
  }
  const double start = cpu_seconds();
  arb_mat_mul(z, x, y, 113);
  const double seconds = cpu_seconds() - start;
  arb_mat_clear(x);
  arb_mat_clear(y);
  arb_mat_clear(z);
  return seconds;
#else
  return 0;
#endif
}

template <class Work>
double seconds(const Work& work) {
  const double start = cpu_seconds();
  work();
  return cpu_seconds() - start;
}

void products(benchmark::State& state, const Format& format) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const Matrix<double> a = matrix(n, format, 1), b = matrix(n, format, 50);
  const Tensor narrow_a = converted<float>(a), narrow_b = converted<float>(b);
  Tensor c(n, n);
  std::vector<double> mpfr_certified, mpfr_doubled, arb_certified, arb_doubled, to_fp64, to_fp32,
      doubled_fp32, magnitudes;
  double exact = 0;
  for (auto _ : state) {
    const double fp32_time = seconds([&] {
      find_backend("eigen").gemm(view(narrow_a), view(narrow_b), c.values.data(), n, false);
    });
    const double fp64_time =
        seconds([&] { benchmark::DoNotOptimize(product(view(a), view(b)).values.data()); });
    const double sizes = seconds(
        [&] { benchmark::DoNotOptimize(product_of_sizes(view(a), view(b)).values.data()); });
    const double certified = seconds([&] { exact = certified_product(view(a), view(b)).exact; });
    const double doubled = seconds(
        [&] { benchmark::DoNotOptimize(doubled_product(view(a), view(b)).value.values.data()); });
    const double mpfr = mpfr_seconds_per_row(a, b) * static_cast<double>(n);
    const double arb = arb_seconds(a, b);
    mpfr_certified.push_back(mpfr / certified);
    mpfr_doubled.push_back(mpfr / doubled);
    arb_certified.push_back(arb / certified);
    arb_doubled.push_back(arb / doubled);
    to_fp64.push_back(certified / fp64_time);
    to_fp32.push_back(certified / fp32_time);
    doubled_fp32.push_back(doubled / fp32_time);
    magnitudes.push_back(sizes / fp64_time);
  }
  state.counters["exact"] = exact;
  state.counters["mpfr/certified"] = median(mpfr_certified);
  state.counters["mpfr/doubled"] = median(mpfr_doubled);
  state.counters["arb/certified"] = median(arb_certified);
  state.counters["arb/doubled"] = median(arb_doubled);
  state.counters["certified/fp64"] = median(to_fp64);
  state.counters["certified/fp32"] = median(to_fp32);
  state.counters["doubled/fp32"] = median(doubled_fp32);
  state.counters["|A||B|/fp64"] = median(magnitudes);
}

// FP64 rows of an operation against the same in MPFR's 300 bits. Sixteen rows take microseconds, so
// they are computed many times in a row.
void rows(benchmark::State& state, const char* id) {
  constexpr std::size_t n = 4096, many = 16, times = 32;
  const Operation& operation = *find_operation(id);
  const Attributes attributes{{"eps", 1e-5}};
  Matrix<double> x(many, n), w(n, 1, 1.0), b(n, 1, 0.5);
  for (std::size_t e = 0; e < x.size(); ++e) x.values[e] = normal(1, e);
  const bool norm = std::string_view(id) == "layernorm";
  std::vector<double> ratio;
  for (auto _ : state) {
    ExactRoundings none;
    Call<double> call{{&x}, attributes, {}, none};
    if (norm) call.inputs = {&x, &w, &b};
    const double fp64_time = seconds([&] {
                               for (std::size_t i = 0; i < times; ++i) {
                                 benchmark::DoNotOptimize(operation.value(call)[0].values.data());
                               }
                             }) /
                             times;
    const double mpfr = seconds([&] {
      benchmark::DoNotOptimize((norm ? exact_layernorm({x.row(0), n}, w.values, b.values, 1e-5)
                                     : exact_softmax({x.row(0), n}))
                                   .data());
    });
    ratio.push_back(mpfr * static_cast<double>(many) / fp64_time);
  }
  state.counters["mpfr/fp64"] = median(ratio);
}

BENCHMARK_CAPTURE(products, bf16, bf16)
    ->Arg(256)
    ->Arg(1024)
    ->Iterations(5)
    ->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(products, e4m3fn, e4m3fn)->Arg(1024)->Iterations(3)->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(products, fp32, fp32)->Arg(1024)->Iterations(5)->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(rows, softmax, "softmax")->Iterations(7)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(rows, layernorm, "layernorm")->Iterations(7)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plumb
