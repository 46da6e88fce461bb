// all_reduce: y = x_0 + x_1 + ..., one tensor a rank, as the algorithm of a collective adds them
//
//   inputs       x_0 ... x_{R-1}, each (N, M)        y (N, M)
//   attributes   algorithm: number of a Collective::Algorithm; rotation: of ring, see
//                bounds/collective.hpp. Without one the evaluation has 0, the tolerance holds for
//                all
//   evaluate     each x rounded to `wire`; sums in FP32, each of them (ring, tree) or the last
//                alone rounded to `wire`; one rank sends nothing. At the end one rounding to the
//                output format
//   tolerance    as the evaluation goes; ring without a rotation: the largest over rotations;
//                any_order: what any tree of FP32 additions may lose, bounds/tolerance.hpp
#include <cmath>
#include <stdexcept>

#include "bounds/collective.hpp"
#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

using Algorithm = Collective::Algorithm;

Collective collective_of(const Attributes& attributes, std::size_t ranks, const Format& wire) {
  const auto attribute = [&](std::string_view name) { return attributes.find(name)->second; };
  if (!attributes.contains("algorithm")) {
    throw std::invalid_argument("the operation needs the attribute 'algorithm'");
  }
  const double algorithm = attribute("algorithm");
  if (!(algorithm >= 0 && algorithm < algorithm_names.size())) {
    throw std::invalid_argument("all_reduce: algorithm " + std::to_string(algorithm) +
                                "; 0 is ring, 1 tree, 2 rank_order, 3 any_order");
  }
  Collective c{
      static_cast<Algorithm>(static_cast<int>(algorithm)), static_cast<int>(ranks), wire, {}};
  if (attributes.contains("rotation")) c.rotation = static_cast<int>(attribute("rotation"));
  c.check();
  return c;
}

// Ranks [first, last) of the tree.
template <class T>
Matrix<T> by_halves(std::vector<Matrix<T>>& parts, std::size_t first, std::size_t last,
                    const Call<T>& call) {
  if (last - first == 1) return std::move(parts[first]);
  const std::size_t middle = first + (last - first) / 2;
  Matrix<T> sum = by_halves(parts, first, middle, call);
  const Matrix<T> other = by_halves(parts, middle, last, call);
  for (std::size_t e = 0; e < sum.size(); ++e) sum.values[e] += other.values[e];
  call.roundings.round(sum, call.how.wire);
  return sum;
}

// One rank after the other; chunk c of the elements begins at rank (c + rotation) % ranks, or all
// of them at rank 0.
template <class T>
Matrix<T> in_turn(const std::vector<Matrix<T>>& parts, const Collective& how, const Call<T>& call) {
  const std::size_t ranks = parts.size();
  const bool ring = how.algorithm == Algorithm::ring;
  const auto rotation = static_cast<std::size_t>(how.rotation.value_or(0));
  Matrix<T> sum(parts[0].rows, parts[0].cols);
  for (std::size_t k = 0; k < ranks; ++k) {
    for (std::size_t c = 0; c < ranks; ++c) {
      const auto [first, last] = slice(sum.size(), how.ranks, static_cast<int>(c));
      const Matrix<T>& part = parts[ring ? (c + rotation + k) % ranks : k];
      for (std::size_t e = first; e < last; ++e) {
        if (k == 0) sum.values[e] = part.values[e];
        if (k > 0) sum.values[e] += part.values[e];
      }
    }
    // Between, FP32 sums stay as they are.
    if (k > 0) call.roundings.round(sum, ring || k + 1 == ranks ? call.how.wire : fp32);
  }
  return sum;
}

template <class T>
std::vector<Matrix<T>> sent(const Call<T>& call) {
  std::vector<Matrix<T>> parts;
  for (const Matrix<T>* x : call.inputs) parts.push_back(*x);
  if (parts.size() == 1) return parts;
  call.roundings.before_parts(parts, call.how.wire);
  for (Matrix<T>& part : parts) call.roundings.round(part, call.how.wire);
  return parts;
}

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  const Collective how = collective_of(call.attributes, call.inputs.size(), call.how.wire);
  std::vector<Matrix<T>> parts = sent(call);
  Matrix<T> y = how.algorithm == Algorithm::tree ? by_halves(parts, 0, parts.size(), call)
                                                 : in_turn(parts, how, call);
  call.roundings.round(y, call.how.output);
  return as_outputs(std::move(y));
}

// The sum whose order is not known: the errors of its parts, and what FP32 may lose in any order.
std::vector<Matrix<RunningError>> in_any_order(const Call<RunningError>& call) {
  const std::vector<Matrix<RunningError>> parts = sent(call);
  Matrix<RunningError> y(parts[0].rows, parts[0].cols);
  for (std::size_t e = 0; e < y.size(); ++e) y.values[e] = added_in_any_order(parts, e, fp32);
  for (std::size_t k = 1; k < parts.size(); ++k) {  // as often as the evaluation rounds
    call.roundings.round(y, k + 1 == parts.size() ? call.how.wire : fp32);
  }
  call.roundings.round(y, call.how.output);
  return as_outputs(std::move(y));
}

void widen(Tolerance& t, const Tolerance& other, const std::optional<Place>& explained) {
  Matrix<double>& bound = t.bound[0];
  const auto told = [&](const Matrix<double>& m) {
    return explained ? m.values.at(explained->element) : std::ranges::max(m.values);
  };
  if (bound.size() > 0 && told(other.bound[0]) > told(bound)) t.terms = other.terms;
  for (std::size_t e = 0; e < bound.size(); ++e) {
    bound.values[e] = std::max(bound.values[e], other.bound[0].values[e]);
  }
}

Outcome<Tolerance> tolerance(const ToleranceCall& call) {
  const Collective how = collective_of(call.attributes, call.inputs.size(), call.how.wire);
  const bool any_order = how.algorithm == Algorithm::any_order;
  const bool any_rotation = how.algorithm == Algorithm::ring && !how.rotation;
  if (call.mode == Mode::moments && (any_order || any_rotation)) {
    return Refusal{Why::unsupported,
                   any_order ? "moments of a sum need its order; a switch has none"
                             : "moments of a sum need its order; name the ring's rotation"};
  }
  if (any_order) return tolerance_by_evaluation(call, {in_any_order, nullptr}, {});
  if (!any_rotation) return tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>(call);
  Attributes attributes = call.attributes;
  attributes["rotation"] = 0;
  const ToleranceCall turned{call.inputs, attributes,  call.how,      call.mode,
                             call.delta,  call.values, call.explained};
  std::optional<Tolerance> widest;
  for (int r = 0; r < how.ranks; ++r) {
    attributes["rotation"] = r;
    const Outcome<Tolerance> t =
        tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>(turned);
    if (!t) return t;
    if (!widest) widest = *t;
    widen(*widest, *t, call.explained);
  }
  return *widest;
}

void random(RandomCall& c) {
  const std::size_t ranks = c.draw.between(1, 9), algorithm = c.draw.between(0, 3);
  c.e.attributes = {{"algorithm", algorithm}};
  if (algorithm == 0 && c.draw.coin()) c.e.attributes["rotation"] = c.whole(0, ranks - 1);
  for (std::size_t i = 0; i < ranks; ++i) c.table();
}
// Eight ranks in a ring.
void shaped(Maker& m) {
  for (int rank = 0; rank < 8; ++rank) m.table();
  m.e.attributes = {{"algorithm", 0}};
}

}  // namespace

extern const Operation all_reduce{
    .id = "all_reduce",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance,
    .sums = SumOrder::none,
    .traits = {.of_ranks = true},
    .schema = {.inputs = {repeated({"x", "N", "M"})},
               .outputs = {{"y", "N", "M"}},
               .attributes = {count("algorithm", 0, 3), or_else(count("rotation", 0))}},
    .examples = {.random = random, .shaped = shaped},
};

}  // namespace plumb::bounds
