// trace/execute.hpp: runs a promise node by node on one device. It knows no ranks, joints or bugs;
// with different arithmetic it is the reference, a twin, the exact run, a draw of noise.
//
//   T = float    reference (RealRoundings), twins (TwinRoundings)
//   T = double   exact (ExactRoundings), noise draws (SignedRoundings)
//
// COSTS    one training step on one core; a twin reuses every node that nothing split lies
//          upstream of.
// TESTED   tests/trace/execute_test.cpp; equality with the model: tests/model/
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "trace/sees.hpp"
#include "trace/trace.hpp"

namespace plumb::trace {

template <class T>
using MakeRoundings = std::function<std::unique_ptr<Roundings<T>>(const Node&)>;

struct Extent {
  Phase last = Phase::optimizer;  // later phases are not run
};

// Returns the leaves and every output. Throws Failure if a leaf is missing.
template <class T>
ValuesOf<T> execute(const Graph& graph, const ValuesOf<T>& leaves, const MakeRoundings<T>& make,
                    Extent extent = {});

// Executes the promise as it stands.
Values reference(const Graph& graph, const Values& leaves, Extent extent = {});

// Executes it in FP64, nothing rounded.
ValuesOf<double> exact(const Graph& graph, const Values& leaves, Extent extent = {});

// Makes one node from values that hold its inputs: as promised, or as each of some twins makes it
// from its own, which have one shape (real rounding after a transfer between neighbouring parts or,
// where parts are not rounded to travel, with other cuts). Twins of a whole step: trace/boundaries.hpp.
void make(const Node& node, Values& values);
void draw(const Node& node, std::vector<Values>& twins, std::uint64_t seed);

// The errors that each rounding of the reference made, by the first output of its node, in call
// order.
using Errors = std::map<std::string, std::vector<Tensor>>;
Errors rounding_errors(const Graph& graph, const Values& leaves, Extent extent = {});

// Draw k of rounding noise around the exact run: the errors of the same promise's reference, each
// with a random sign (twins.md M6). They come from executing the promise, never from a trace: a run
// that rounds where nothing was promised does not widen its own tolerance.
ValuesOf<double> noise_draw(const Graph& graph, const Values& leaves, const Errors& errors,
                            std::uint64_t seed, int k, Extent extent = {});

// Executes `base` again with some outputs replaced before anyone reads them: only what lies
// downstream is computed.
Values with_replaced(const Graph& graph, const Values& base, const Values& others,
                     Extent extent = {});

// The reference with each element of the output `where` moved by a relative +-epsilon of its format
// (2^-7 of bf16) before it is used: TTrace's estimate of what rounding does. Where the run is
// rewritten, every tensor that a module takes in is moved, and returned as it was.
Values perturbed(const Graph& graph, const Values& leaves, const std::string& where,
                 std::uint64_t seed, Extent extent = {});

}  // namespace plumb::trace
