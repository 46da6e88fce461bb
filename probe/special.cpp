#include "probe/special.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "probe/masked.hpp"

namespace plumb::probe {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

// A sum of products, and what IEEE 754 says of it where sums are to nearest.
struct Case {
  const char* what;
  std::vector<std::pair<float, float>> products;
  float expected;
};

std::vector<Case> cases_of(const Format& input) {
  std::vector<Case> all;
  const auto largest = static_cast<float>(std::ldexp(1.0, std::min(input.emax, 120)));
  if (input.overflow != Overflow::to_largest) {
    all.push_back({"a NaN", {{no_number, 1}, {1, 1}}, no_number});
    all.push_back({"a NaN times zero", {{1, 1}, {no_number, 0}}, no_number});
  }
  if (input.overflow == Overflow::to_infinity) {
    all.push_back({"infinity", {{1, 1}, {infinity, 1}}, infinity});
    all.push_back({"infinity times zero", {{1, 1}, {infinity, 0}}, no_number});
    all.push_back({"infinity minus infinity", {{infinity, 1}, {infinity, -1}}, no_number});
  }
  if (input.emax >= 64) {
    all.push_back({"a product beyond the largest number", {{largest, largest}}, infinity});
    all.push_back({"a sum below the lowest number",
                   {{largest, -0x1p7F}, {largest, -0x1p7F}, {largest, -0x1p7F}},
                   -infinity});
  }
  return all;
}

bool same(float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); }

}  // namespace

void find_special(const Subject& subject, Findings& findings) {
  const std::vector<Case> cases = cases_of(subject.input);
  if (cases.empty()) return;
  Tensor a(cases.size(), 4), b(cases.size(), 4);
  for (std::size_t r = 0; r < cases.size(); ++r) {
    for (std::size_t k = 0; k < cases[r].products.size(); ++k) {
      std::tie(a(r, k), b(r, k)) = cases[r].products[k];
    }
  }
  // By themselves: a NaN times the zeros of another row would be its neighbour's.
  const std::vector<float> found = sums_of(subject, a, b, Read::first);
  std::string others;
  for (std::size_t r = 0; r < cases.size(); ++r) {
    if (same(found[r], cases[r].expected)) continue;
    others += fmt::format("{}{} gives {}", others.empty() ? "" : "; ", cases[r].what, found[r]);
  }
  findings.observed("infinities and NaN", others.empty() ? "as IEEE 754 says" : others);
}

}  // namespace plumb::probe
