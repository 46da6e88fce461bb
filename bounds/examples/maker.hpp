// bounds/examples/maker.hpp: fills an example of a shape that somebody asks for.
#pragma once

#include <cmath>

#include "bounds/examples/shaped.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

// Fills an example of rows x cols.
class Maker {
 public:
  Maker(std::size_t rows, std::size_t cols, const Format& format, const DrawAt& draw, Example& e)
      : rows_(rows), cols_(cols), format_(format), draw_(draw), e_(e) {}

  void drawn(std::size_t rows, std::size_t cols) {
    Matrix<double> m(rows, cols);
    for (std::size_t i = 0; i < m.size(); ++i) {
      m.values[i] = round_to(draw_(e_.inputs.size(), i), format_, {.saturate = true});
    }
    e_.inputs.push_back(std::move(m));
  }
  void table() { drawn(rows_, cols_); }
  void weights() {
    Matrix<double> w(cols_, 1);
    for (std::size_t i = 0; i < cols_; ++i) {
      w.values[i] = round_to(1 + 0.1 * normal_at(100 + e_.inputs.size(), i), format_);
    }
    e_.inputs.push_back(std::move(w));
  }
  void filled(std::size_t rows, std::size_t cols, double with) {
    e_.inputs.emplace_back(rows, cols, with);
  }
  void labels() {
    filled(rows_, 1, 0);
    for (std::size_t t = 0; t < rows_; ++t)
      e_.inputs.back().values[t] = static_cast<double>(t % cols_);
  }

  std::size_t rows_, cols_;

 private:
  const Format& format_;
  const DrawAt& draw_;
  Example& e_;
};

}  // namespace plumb::bounds
