// bounds/row_wise.hpp: can some rows of an operation's outputs be had of some rows of its inputs?
//
// Then a large call can be judged in blocks of rows, or by a few of them. The schema says it: the
// outputs' rows are one symbol, T of a softmax or M of a product. An input has that many rows (or,
// where it is transposed, columns) and is cut, or does not know the symbol, and every row needs all
// of it.
//
// ASSUMES  What has one number a row (labels, ids, counts) may mean more than its row, as a step
//          over T does; so may keys of random bits, collectives, and exact operations, which move
//          rows about: calls of those are not cut.
// TESTED   tests/bounds/row_wise_test.cpp: every operation that is cut has the bits of the whole
#pragma once

#include <optional>
#include <vector>

#include "bounds/operation.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

enum class Cut { none, rows, columns };

// Returns how each input is cut, or nothing where rows depend on each other. Throws
// std::invalid_argument if the call has not the form of the schema.
std::optional<std::vector<Cut>> row_wise(const Operation& operation, std::size_t inputs,
                                         const Attributes& attributes);

}  // namespace plumb::bounds
