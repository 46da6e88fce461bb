// trace/placements/dims.hpp: a placement as a line of text, after the annotations of SGLang's
// comparator of dumps.
//
//   b s[cp:zigzag,sp] (heads*d)[tp] 1 # dp:replicated ep:partial
//
// A word is a dimension, however it is called. In brackets stand the axes that share it, the
// outermost first, each with `:zigzag`, or with `:sharded` or `:natural`, which say nothing more.
// Behind # stand axes on which all ranks have all of it (`replicated`) or a summand each
// (`partial`).
//
// REFUSES  unsupported   axes that the mesh does not have, other words behind a colon, brackets
//                        without their other half
// TESTED   tests/trace/placements_test.cpp
#pragma once

#include <cstddef>
#include <string>

#include "number/outcome.hpp"
#include "trace/placements/mesh.hpp"
#include "trace/placements/sharding.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// Of a tensor with so many dimensions.
Outcome<Sharding> sharding_from_dims(const std::string& text, std::size_t dimensions,
                                     const Mesh& mesh);

}  // namespace plumb::trace
