// model/plan/rewriting.hpp: the promise of a run in which no error travels from module to module.
//
// A module is what has one name in a layer: norm1, attn, norm2, mlp; embedding, final_norm, head,
// loss; a sum of gradients in the residual stream. What one of them makes and another takes in,
// forward (out) and backward (grad_in, grad_out), is taken in from a leaf instead: ID@rewritten,
// which every rank and the reference have alike (model/run/rewriting.hpp). ID itself is made,
// recorded and judged as before. So a tensor can be wrong only if its own module is.
//
//   normal      norm1/out -> attn.qkv/out        rewritten   norm1/out
//                                                            norm1/out@rewritten -> attn.qkv/out
//
// Left alone: what a module keeps to itself (queries, probabilities, copies sent to experts),
// choices, sums that are not whole yet, gradients of parameters and what follows from them.
// TESTED   tests/model/rewriting_test.cpp
// SOURCES  the localisation of TTrace: bounds/SOURCES.md [TTrace]
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/sees.hpp"
#include "number/format.hpp"
#include "trace/finding.hpp"
#include "trace/graph.hpp"

namespace plumb::model {

// "m3/layers.2.attn.qkv/out" -> "layers.2.attn": the module that makes a tensor. The gradient of
// the logits is made by the loss.
std::string module_of(const std::string& id);

// Returns the modules of which something was found, in the order of the findings.
std::vector<std::string> modules_of(const std::vector<Finding>& findings);

// Returns the ids that one module makes and another takes in, with their formats.
std::map<std::string, Format> handed_on(const Graph& graph);

// Returns the promise with these taken in from leaves.
Graph rewritten(Graph graph);

}  // namespace plumb::model
