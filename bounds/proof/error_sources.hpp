// bounds/proof/error_sources.hpp: the variance of a number's error, and which roundings it shares with
// other numbers.
//
// What a number has lost in roundings that are its own is one variance. What it has lost in those
// that other numbers went through, too, is a signed sensitivity to each such *source*, so that what
// cancels between two numbers cancels. Of independent sources,
//   variance = own + sum over sources of sensitivity^2
//
// COSTS    a combination of numbers of m and n sources takes m + n steps
// SOURCES  theory.md P5
// TESTED   tests/bounds/proof/error_moments_test.cpp
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <vector>

#include "bounds/proof/term.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

struct ErrorSources {
  struct Sensitivity {
    std::uint64_t source;  // in the order in which sources came to be
    double deviation;      // signed: by how much this number moves with one deviation of the source
  };

  double own = 0;                    // variance of the roundings that no other number shares
  std::vector<Sensitivity> sources;  // sorted

  double variance() const {
    double all = own;
    for (const Sensitivity& s : sources) all += s.deviation * s.deviation;
    return all;
  }

  void clear() {
    own = 0;
    sources.clear();
  }
  // Takes all errors for its own.
  void forget() {
    own = variance();
    sources.clear();
  }
  // Makes one source of its own errors.
  void name() {
    static std::atomic<std::uint64_t> count{0};  // only tells sources apart, oldest first
    if (own == 0) return;
    sources.push_back({++count, term<"moment.shared">(std::sqrt(own))});
    own = 0;
  }
  void change_signs() {
    for (Sensitivity& s : sources) s.deviation = -s.deviation;
  }

  // The errors of factor_a a + factor_b b. (a may be b.)
  static ErrorSources combined(const ErrorSources& a, double factor_a, const ErrorSources& b,
                               double factor_b) {
    ErrorSources m;
    m.own = product(factor_a * factor_a, a.own) + product(factor_b * factor_b, b.own);
    if (&a == &b) m.own = product((factor_a + factor_b) * (factor_a + factor_b), a.own);
    m.sources.reserve(a.sources.size() + b.sources.size());
    auto x = a.sources.begin();
    auto y = b.sources.begin();
    while (x != a.sources.end() || y != b.sources.end()) {
      const bool of_a = y == b.sources.end() || (x != a.sources.end() && x->source <= y->source);
      const bool of_b = x == a.sources.end() || (y != b.sources.end() && y->source <= x->source);
      Sensitivity s{of_a ? x->source : y->source, 0};
      if (of_a) s.deviation += factor_a * (x++)->deviation;
      if (of_b) s.deviation += factor_b * (y++)->deviation;
      m.sources.push_back(s);
    }
    return m;
  }

  // Adds the errors of sign b.
  void append(const ErrorSources& b, double sign) {
    own += b.own;
    if (b.sources.empty()) return;
    if (sources.empty() || sources.back().source < b.sources.front().source) {
      for (const Sensitivity& s : b.sources) sources.push_back({s.source, sign * s.deviation});
      return;
    }
    if (!std::equal(
            sources.begin(), sources.end(), b.sources.begin(), b.sources.end(),
            [](const Sensitivity& x, const Sensitivity& y) { return x.source == y.source; })) {
      sources = combined(*this, 1, b, sign).sources;
      return;
    }
    for (std::size_t i = 0; i < sources.size(); ++i) {
      sources[i].deviation += sign * b.sources[i].deviation;
    }
  }

 private:
  // 0 without errors, even if the factor is infinite.
  static double product(double factor, double variance) {
    return variance == 0 ? 0 : factor * variance;
  }
};

}  // namespace plumb::bounds
