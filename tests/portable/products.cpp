// Prints the bits of products and of stochastic roundings: those of a build for any machine are
// those of this build. With an
// argument, in place of that, what products and loops cost: the least of some times, in microseconds.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>

#include "number/exponential.hpp"
#include "number/philox.hpp"
#include "number/product.hpp"
#include "number/rounding.hpp"

namespace {

template <class T>
plumb::Matrix<T> drawn(std::size_t rows, std::size_t cols, std::uint64_t key) {
  plumb::Matrix<T> m(rows, cols);
  for (std::size_t e = 0; e < m.size(); ++e) {
    m.values[e] = static_cast<T>(plumb::uniform(key, e) - 0.5);
  }
  return m;
}

template <class T, class Word>
void print_product(std::size_t m, std::size_t k, std::size_t n, bool transposed) {
  const auto a = transposed ? drawn<T>(k, m, 1) : drawn<T>(m, k, 1);
  const auto b = transposed ? drawn<T>(n, k, 2) : drawn<T>(k, n, 2);
  std::uint64_t digest = 0;
  for (const T x : plumb::product(view(a, transposed), view(b, transposed)).values) {
    digest = digest * 0x100000001b3U ^ std::bit_cast<Word>(x);
  }
  std::printf("%zux%zux%zu %016llx\n", m, k, n, static_cast<unsigned long long>(digest));
}

void print_stochastic(const plumb::Format& format) {
  auto x = drawn<float>(1, 1000, 3);
  plumb::round_stochastically(x.values, format, 7, 5);
  std::uint64_t digest = 0;
  for (const float y : x.values) digest = digest * 0x100000001b3U ^ std::bit_cast<std::uint32_t>(y);
  std::printf("%s %016llx\n", format.name.data(), static_cast<unsigned long long>(digest));
}

template <class Work>
void print_time(const char* what, const Work& work) {
  using Clock = std::chrono::steady_clock;
  auto least = Clock::duration::max();
  for (int i = 0; i < 15; ++i) {
    const auto begin = Clock::now();
    work();
    least = std::min(least, Clock::now() - begin);
  }
  std::printf("%-34s %8.1f\n", what, std::chrono::duration<double, std::micro>(least).count());
}

void print_times() {
  const auto a = drawn<float>(384, 384, 1), b = drawn<float>(384, 384, 2);
  const auto c = drawn<double>(384, 384, 1), d = drawn<double>(384, 384, 2);
  const auto x = drawn<float>(128, 128, 1);
  plumb::Matrix<float> y = x;
  print_time("product, FP32, n = 384", [&] { plumb::product(view(a), view(b)); });
  print_time("product, FP64, n = 384", [&] { plumb::product(view(c), view(d)); });
  print_time("exponentials, 16384", [&] {
    for (std::size_t e = 0; e < x.size(); ++e) y.values[e] = plumb::exp(x.values[e]);
  });
  print_time("roundings to BF16, 16384", [&] {
    y = x;
    plumb::round_in_place(y.values, plumb::bf16);
  });
  print_time("stochastic roundings, 16384", [&] {
    y = x;
    plumb::round_stochastically(y.values, plumb::bf16, 7);
  });
}

}  // namespace

int main(int count, char**) {
  if (count > 1) {
    print_times();
    return 0;
  }
  for (const plumb::Format& format : {plumb::bf16, plumb::fp16, plumb::e4m3fn}) {
    print_stochastic(format);
  }
  for (const std::size_t m : {1, 7, 13}) {
    for (const std::size_t n : {1, 16, 50, 64, 150}) {
      for (const bool transposed : {false, true}) {
        print_product<float, std::uint32_t>(m, 300, n, transposed);
        print_product<double, std::uint64_t>(m, 300, n, transposed);
      }
    }
  }
}
