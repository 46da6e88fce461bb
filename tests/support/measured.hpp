// tests/support/measured.hpp: healthy runs as numbers: twins and candidate of 200 tensors.
#pragma once

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "trace/spreads.hpp"

namespace plumb::tests {

using trace::Measured;
using trace::Sample;
using trace::Statistic;

inline constexpr int twins = 4;

// Tensors of 20 kinds. `scatter` draws a number of size 1: logarithms of statistics are that times
// the spread of the kind, scale is that times a tenth of the noise.
template <class Scatter>
std::vector<Measured> healthy_run(Scatter&& scatter, int draws = twins, int tensors = 200) {
  std::vector<Measured> all;
  for (int i = 0; i < tensors; ++i) {
    Measured m;
    m.id = std::to_string(i);
    m.kind = std::to_string(i % 20);
    m.group = i % 4;
    m.noise = 0.01;
    m.norm_of_reference = 100;
    m.elements = 1e6;
    const double spread = 0.05 + 0.01 * (i % 20);
    const auto draw = [&](int k) {
      Sample s{};
      for (double& value : s) value = std::exp(spread * scatter(i, k));
      s[static_cast<std::size_t>(Statistic::scale)] = 0.01 * 0.1 * scatter(i, k);
      return s;
    };
    for (int k = 0; k < draws; ++k) m.draws.push_back(draw(k));
    m.candidate = draw(draws);
    all.push_back(m);
  }
  return all;
}

// Log-normal and unrelated.
inline std::vector<Measured> healthy(unsigned seed, int draws = twins) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  return healthy_run([&](int, int) { return normal(random); }, draws);
}

}  // namespace plumb::tests
