// experiments/curves.hpp: what a person sees who compares the curve of a run with those of healthy
// ones, made a rule: from some point on, and to the end, it lies outside of the band that these span
// by more than k times the band's width there, and by more than a pixel of the picture.
//
// ASSUMES  curves of one length; the picture is `pixels` high, from the lowest to the highest point
//          of a healthy run.
// TESTED   tests/experiments/curves_test.cpp
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "experiments/sees.hpp"

namespace plumb::experiments {

using CurveOf = std::vector<double>;  // by point

inline constexpr double pixels = 500;

struct Band {
  CurveOf low, high;
  double pixel = 0;
};

inline Band band_of(const std::vector<CurveOf>& healthy) {
  Band band{healthy.front(), healthy.front()};
  for (const CurveOf& curve : healthy) {
    for (std::size_t i = 0; i < curve.size(); ++i) {
      band.low[i] = std::min(band.low[i], curve[i]);
      band.high[i] = std::max(band.high[i], curve[i]);
    }
  }
  band.pixel = (std::ranges::max(band.high) - std::ranges::min(band.low)) / pixels;
  return band;
}

// Distance of x from the band at point i; infinite where x is no number.
inline double outside(const Band& band, std::size_t i, double x) {
  if (!(x - x == 0)) return std::numeric_limits<double>::infinity();
  return std::max({band.low[i] - x, x - band.high[i], 0.0});
}

// The point from which on a person sees it; nothing: never.
inline std::optional<std::size_t> seen_from(const CurveOf& curve, const Band& band, double k) {
  std::size_t from = curve.size();
  while (from > 0) {
    const std::size_t i = from - 1;
    const double gap = outside(band, i, curve[i]);
    if (gap <= k * (band.high[i] - band.low[i]) || gap <= band.pixel) break;
    from = i;
  }
  return from < curve.size() ? std::optional(from) : std::nullopt;
}

}  // namespace plumb::experiments
