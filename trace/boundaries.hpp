// trace/boundaries.hpp: twins, made side by side with the reference that they and a candidate are
// held against; and the few roundings that may fall either way, which are followed (twins.md F1).
//
// Where FP32 sums meet a shorter format, hardly any number is so near to the middle between two
// that another order of the sum rounds it apart; but one that is moves all that follows by an ulp
// of that format, some ten thousand times what FP32 loses. Four twins cannot foretell such events.
// So, where twins show few, reference and twins go on with the number that the candidate has, as
// they do with its choices (trace/decisions.hpp). The same holds for scales: a last bit may move
// one by a step that moves all of a tensor.
//
// That excuses no error: replay asks of each tensor that was followed whether it comes from the
// candidate's own inputs. And only few numbers are followed: at most one in sixteen (or 20), each
// by one ulp (copies for products, which replay alone judges, by any step), where the differences
// of the twins rest on no more than fewest_flips.
//
// TESTED   tests/trace/boundaries_test.cpp
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "trace/execute.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// The logarithm of the norm of n independent flips scatters by 1 / (2 sqrt n); for n = 20 that is
// half of ln 1.25: norms of fewer cannot be foretold within 1.25 in 95 of 100 cases.
inline constexpr double fewest_flips = 20;

struct Meeting {
  Values reference;  // given the candidate's side
  std::vector<Values> twins;
  std::set<std::string> followed;  // tensors that were taken from the candidate
  std::size_t flips = 0;           // numbers in them that the reference had rounded otherwise
};

// Sees each node as soon as reference and twins hold its outputs, which nothing changes any more: they
// are still in the nearest caches then. `touched`: is something split upstream?
using AsMade = std::function<void(const Node&, bool touched, const Meeting&)>;

// Makes twins 1 to k of `graph`, the candidate's promise, and lets go of their tensors behind the
// last node that reads them unless it `keeps` them. `reference`: values of `reference_graph`,
// with the candidate's choices; `candidate`: its values, or null: then nobody is followed, and
// twins meet at the reference. Costs k + 1 steps where something is followed, else k, of what lies
// downstream of anything split.
Meeting meet(
    const Graph& reference_graph, const Values& reference, const Graph& graph,
    const Values* candidate, std::uint64_t seed, int k, Extent extent = {},
    const AsMade& see = [](const Node&, bool, const Meeting&) {}, bool keeps = true);

}  // namespace plumb::trace
