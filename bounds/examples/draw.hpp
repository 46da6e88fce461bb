// bounds/examples/draw.hpp: random matrices of the kinds that a bound must survive.
//
//   plain        normal
//   cancelling   sums near zero
//   spread       over 40 binades
//   tiny         products fall below the normal range of FP32
//   positive     errors of a chain add up
//   powers       of two, so that sums lie on the edges of binades
//   huge         sums near the end of FP32's range
#pragma once

#include <array>
#include <cmath>
#include <random>
#include <string_view>

#include "bounds/sees.hpp"
#include "number/matrix.hpp"
#include "number/rounding.hpp"

namespace plumb::bounds {

inline constexpr std::array input_kinds{"plain",    "cancelling", "spread", "tiny",
                                        "positive", "powers",     "huge"};

class Draw {
 public:
  Draw(std::string_view kind, unsigned seed) : kind_(kind), random_(seed) {}

  double normal() { return normal_(random_); }
  double uniform() { return std::uniform_real_distribution<double>()(random_); }
  // A whole number between low and high, both included.
  std::size_t between(std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(random_);
  }
  bool coin() { return between(0, 1) == 1; }

  // Values of the kind, each a number of `format`. Cancelling negates neighbours along a row or a
  // column, up to an ulp or so.
  Matrix<double> matrix(std::size_t rows, std::size_t cols, const Format& format = fp32) {
    Matrix<double> m(rows, cols);
    for (std::size_t e = 0; e < m.size(); ++e) {
      double x = normal();
      if (kind_ == "positive") x = 0.5 + uniform();
      if (kind_ == "spread") x = std::ldexp(x, static_cast<int>(between(0, 40)) - 20);
      if (kind_ == "tiny") x = std::ldexp(x, -static_cast<int>(between(60, 140)));
      if (kind_ == "powers") {
        x = std::ldexp(coin() ? 1.0 : -1.0, static_cast<int>(between(0, 30)) - 15);
      }
      if (kind_ == "huge") x = std::ldexp(x, static_cast<int>(between(50, 61)));
      const std::size_t back = cols > 1 ? 1 : cols;
      if (kind_ == "cancelling" && e % 2 == 1) x = -m.values[e - back] * (1 + normal() * 0x1p-20);
      m.values[e] = round_to(static_cast<double>(static_cast<float>(x)), format);
    }
    return m;
  }
  // Plain values times `size`, whatever the kind: for logits, or for weights near one.
  Matrix<double> moderate(std::size_t rows, std::size_t cols, double size, double centre = 0) {
    Matrix<double> m(rows, cols);
    for (double& x : m.values)
      x = static_cast<double>(static_cast<float>(centre + size * normal()));
    return m;
  }
  Matrix<double> whole(std::size_t rows, std::size_t below) {
    Matrix<double> m(rows, 1);
    for (double& x : m.values) x = static_cast<double>(between(0, below - 1));
    return m;
  }
  std::string_view kind() const { return kind_; }

 private:
  std::string_view kind_;
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
};

}  // namespace plumb::bounds
