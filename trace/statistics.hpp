// trace/statistics.hpp: the statistics of the difference e of two runs of one tensor.
//
//   e, r (N, M): difference and reference; u_ij: ulp of r_ij in the tensor's format
//   norm       |e|_F
//   mismatch   share of e_ij != 0
//   scale      <e, r> / <r, r>
//   row        max_i sqrt(|e_i|^2 - max_j min(|e_ij|, u_ij)^2) / sqrt(A_i + 0.01 sum_j u_ij^2 / 12)
//              (one flip per row is free; of a vector each element is a row, and none is free)
//   element    max_ij max(|e_ij| - u_ij, 0) / sqrt(A_i B_j / S + u_ij^2 / 12)
//   with A_i, B_j the mean energy of the draws' rows and columns, each shrunk by one part in K to
//   their mean, or where that is less, and they have 8 numbers or more, to what the worst of them errs in
//   ulps; and S the sum of the A_i before that.
//
// TESTED   tests/trace/statistics_test.cpp
// SOURCES  twins.md S1, S2, S3
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "number/format.hpp"
#include "trace/row_sums.hpp"
#include "trace/sees.hpp"
#include "trace/whole.hpp"

namespace plumb::trace {

enum class Statistic { norm, mismatch, scale, row, element };
inline constexpr std::array all_statistics{Statistic::norm, Statistic::mismatch, Statistic::scale,
                                           Statistic::row, Statistic::element};
std::string_view name_of(Statistic statistic);

using Sample = std::array<double, all_statistics.size()>;  // by Statistic

// What the draws of one tensor say of any further difference. Keeps none of them: two numbers a
// row, and one a column.
class Expectation {
 public:
  // Statistics of a candidate, one row left out if asked.
  Sample of(const Whole& candidate, std::optional<std::size_t> without_row = {}) const;
  const Whole& reference() const { return reference_; }

 private:
  friend class Draws;
  struct Field {
    std::vector<double> rows, columns;
    double scale = 1;  // S
  };
  OfRows seen_of(const Whole& x, std::optional<std::size_t> skip) const;
  Sample measured(const Whole& x, const OfRows& seen, const Field& field) const;
  double worst_element(const Whole& x, const OfRows& seen, const Field& field) const;

  Whole reference_;
  Format format_ = fp32;
  std::vector<double> floor_;         // sum of u^2 / 12, by row of the reference
  std::vector<double> column_floor_;  // the square of the sum of u, by its column
  double energy_ = 0;                 // of the reference
  Field field_;                       // of all draws
};

// The draws of one tensor.
class Draws {
 public:
  // All of the reference's shape. Costs one pass over the reference and one per draw.
  Draws(Whole reference, const Format& format, std::vector<Whole> draws);

  std::size_t count() const { return draws_.size(); }
  // Statistics of draw k with the field of the others; of any candidate with the field of all.
  Sample of_draw(std::size_t k) const;
  Sample of(const Whole& candidate, std::optional<std::size_t> without_row = {}) const {
    return all_.of(candidate, without_row);
  }
  const Expectation& expectation() const& { return all_; }
  Expectation expectation() && { return std::move(all_); }
  // The root of the draws' mean energy over the energy of the reference.
  double relative_noise() const;
  double reference_energy() const { return all_.energy_; }

 private:
  Expectation::Field field(std::optional<std::size_t> without) const;

  Expectation all_;
  std::vector<Whole> draws_;
  std::vector<OfRows> seen_;                        // per draw
  std::vector<std::vector<double>> column_energy_;  // per draw
};

// The row of largest energy of a - b, and its share of the whole.
struct TopRow {
  std::size_t row = 0;
  double share = 0;
};
TopRow top_row(const Whole& a, const Whole& b);

}  // namespace plumb::trace
