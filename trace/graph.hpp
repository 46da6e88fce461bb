// trace/graph.hpp: the promise: how each tensor of a training step is to come about.
//
// Made from (configuration, recipe, layout) alone, by code that never sees a bug. The ids are the
// same in every layout of one configuration; only the evaluations differ. Nodes stand in dataflow
// order: an input is a leaf or the output of an earlier node.
//
// TESTED   tests/trace/graph_test.cpp
#pragma once

#include <set>
#include <string>
#include <vector>

#include "bounds/operation.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

enum class Phase { forward, backward, reduce, optimizer };

struct Node {
  std::string op;                    // an id of the operation catalogue
  std::vector<std::string> inputs;   // canonical ids
  std::vector<std::string> outputs;  // canonical ids
  Attributes attributes;
  Evaluation how;
  Phase phase = Phase::forward;
};

struct Graph {
  std::vector<Node> nodes;
};

// Returns what the operation of a node says of itself; of an unknown operation nothing.
const Traits& traits_of(const Node& node);

// Returns the ids that nodes read and no node makes, in order of first use.
std::vector<std::string> leaves_of(const Graph& graph);

// Returns the outputs that two evaluations of one configuration need not share bit by bit: those of
// nodes whose evaluations differ in a way that bits can show, and everything downstream.
// Throws Failure if the graphs do not have the same nodes.
std::set<std::string> touched(const Graph& one, const Graph& other);

// Returns the promise that a run keeps whose products add in an order that nobody knows. Its twins draw
// one for each product.
Graph in_any_order(Graph graph);

// Returns the promise that a run keeps whose ranks add in an order that nobody knows. Two ranks have
// one order.
Graph in_any_rank_order(Graph graph);
// Does one of its sums have ranks that add so?
bool has_any_rank_order(const Graph& graph);

// A tensor under this name is taken in, by whoever takes the one before the mark, in its place: a
// leaf (model/plan/rewriting.hpp).
std::string rewritten_id(const std::string& id);
bool is_rewritten(const std::string& id);
// "m3/head/out@rewritten" -> "m3/head/out"; others as they are.
std::string without_rewriting(const std::string& id);

// "m3/layers.2.norm1/out" -> "layers.2.norm1/out".
std::string without_micro_batch(const std::string& id);

// "m3/layers.2.attn.qkv/out" -> "layers.attn.qkv/out": the same module and tensor in all layers and
// micro-batches.
std::string kind_of(const std::string& id);

}  // namespace plumb::trace
