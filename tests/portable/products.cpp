// Prints the bits of products: those of a build for any machine are those of this build.
#include <bit>
#include <cstdint>
#include <cstdio>

#include "number/philox.hpp"
#include "number/product.hpp"

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

}  // namespace

int main() {
  for (const std::size_t m : {1, 7, 13}) {
    for (const std::size_t n : {1, 16, 50, 64, 150}) {
      for (const bool transposed : {false, true}) {
        print_product<float, std::uint32_t>(m, 300, n, transposed);
        print_product<double, std::uint64_t>(m, 300, n, transposed);
      }
    }
  }
}
