// bounds/operations/grouped.hpp: rows by expert, and one output an expert.
#pragma once

#include <algorithm>

#include "bounds/operations/routing.hpp"
#include "bounds/sees.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {

template <class T>
Matrix<T> rows_of(const Matrix<T>& stacked, const Routing& routing, std::size_t expert) {
  const std::size_t first = routing.first[expert], last = routing.first[expert + 1];
  Matrix<T> own(last - first, stacked.cols);
  std::copy(stacked.row(first), stacked.row(last), own.values.begin());
  return own;
}

// The rows of an expert that each part of a sum over them has.
inline SumPartition of_expert(const Routing& routing, std::size_t expert, const Evaluation& how) {
  const Slice rows{routing.first[expert], routing.first[expert + 1]};
  return parted_rows(routing, rows, parting(routing.rows.size() / routing.slots, how));
}

// Asks for each output's tolerance with the expert's own rows, and returns them as one tolerance.
template <class Ask>
Outcome<Tolerance> of_each(const ToleranceCall& call, const Ask& ask) {
  if (const auto refused = refusals_before(call); !refused.empty()) return refused.front();
  const std::size_t experts = call.count("experts");
  const double delta = call.mode == Mode::probabilistic ? call.delta : 0;
  Tolerance all{call.mode, delta, {}, {}, {}};
  for (std::size_t e = 0; e < experts; ++e) {
    std::optional<Place> explained;
    if (call.explained && call.explained->output == e) explained = {0, call.explained->element};
    const Outcome<Tolerance> one =
        ask(e, std::vector{call.values[e]}, delta / static_cast<double>(experts), explained);
    if (!one) {
      return Refusal{one.error().why, "expert " + std::to_string(e) + ": " + one.error().detail};
    }
    all.bound.push_back(one->bound[0]);
    all.terms.push_back(one->terms[0]);
    if (call.mode == Mode::moments) all.bias.push_back(one->bias[0]);
  }
  return all;
}

}  // namespace plumb::bounds
