// experiments/distance.hpp: the distance of one run of a tensor from another, in FP64, and how well
// draws foretell it.
#pragma once

#include <cmath>
#include <vector>

#include "experiments/sees.hpp"
#include "number/matrix.hpp"

namespace plumb::experiments {

struct Distance {
  double norm = 0;           // Frobenius, of the difference
  std::size_t elements = 0;  // that differ
};

// Both have one shape.
template <class A, class B>
Distance distance(const Matrix<A>& a, const Matrix<B>& b) {
  Distance found;
  double squares = 0;
  for (std::size_t e = 0; e < a.size(); ++e) {
    const double d = static_cast<double>(a.values[e]) - static_cast<double>(b.values[e]);
    squares += d * d;
    found.elements += d != 0 ? 1 : 0;
  }
  found.norm = std::sqrt(squares);
  return found;
}

// The number of tensors whose norm is foretold by their draws: root mean square of the draws' over
// the observed norm.
struct Foretold {
  int tensors = 0, near = 0, within = 0;  // ratios in [0.8, 1.25], in [0.5, 2]
  int others = 0, others_near = 0;        // draws by the other draws: what any draw can reach

  static bool is_near(double ratio) { return ratio >= 0.8 && ratio <= 1.25; }

  // Returns the ratio. At least two draws.
  double add(const std::vector<double>& draws, double observed) {
    double energy = 0;
    for (const double d : draws) energy += d * d;
    const auto k = static_cast<double>(draws.size());
    const double ratio = observed > 0 ? std::sqrt(energy / k) / observed : 1e300;
    ++tensors;
    near += is_near(ratio) ? 1 : 0;
    within += ratio >= 0.5 && ratio <= 2 ? 1 : 0;
    for (const double d : draws) {
      ++others;
      others_near += d > 0 && is_near(std::sqrt((energy - d * d) / (k - 1)) / d) ? 1 : 0;
    }
    return ratio;
  }
  double near_share() const { return share(near, tensors); }
  double within_share() const { return share(within, tensors); }
  double others_share() const { return share(others_near, others); }

 private:
  static double share(int part, int whole) {
    return static_cast<double>(part) / (whole > 0 ? whole : 1);
  }
};

}  // namespace plumb::experiments
