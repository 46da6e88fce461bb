// trace/check_graph.hpp: can a graph be run? Asked of the catalogue of operations alone, so that a
// graph of any program can be asked, without the plan of a model.
//
// HOLDS    after it: each operation is known, and has the attributes, the number of inputs and the
//          number of outputs that its schema asks for; no id is made twice, or read before it is
//          made
// TESTED   tests/trace/check_graph_test.cpp
#pragma once

#include <string>
#include <vector>

#include "number/outcome.hpp"
#include "trace/graph.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// Returns the leaves, which a trace has to have.
// REFUSES  unsupported   in one sentence, with the first node that is wrong
Outcome<std::vector<std::string>> check_graph(const Graph& graph);

// Returns what is wrong with a call of `node`; empty: nothing. The sizes of all inputs are known.
template <class T>
std::string wrong_with(const Node& node, const Operation& operation,
                       const std::vector<const Matrix<T>*>& inputs);

}  // namespace plumb::trace
