#include "experiments/distributions.hpp"

#include <cmath>
#include <numbers>

#include "number/philox.hpp"

namespace plumb::experiments {

double draw_from(std::string_view distribution, std::uint64_t key, std::uint64_t at) {
  const auto normal = [&](std::uint64_t lane) {
    const double radius = std::sqrt(-2 * std::log(1 - uniform(key + 2 * lane, at)));
    return radius * std::cos(2 * std::numbers::pi * uniform(key + 2 * lane + 1, at));
  };
  if (distribution == "positive") return uniform(key, at);
  if (distribution == "lognormal") return std::exp(normal(0));
  if (distribution == "constant") return 0.7;
  if (distribution == "heavy-tailed") {
    const double a = normal(1), b = normal(2), c = normal(3);
    return normal(0) / std::sqrt((a * a + b * b + c * c) / 3);
  }
  return normal(0);
}

}  // namespace plumb::experiments
