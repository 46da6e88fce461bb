// bounds/check_call.hpp: does a call have the form that its operation's schema asks for?
//
// A graph from a file is untrusted: an operation is evaluated only where its call was found to be
// whole. Each refusal is one sentence.
//
// TESTED   tests/bounds/schema_test.cpp
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "bounds/operation.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

struct Shape {
  std::size_t rows, cols;
  bool operator==(const Shape&) const = default;
};

// An output as the schema knows it; a size that only the evaluation knows is empty.
struct OutputForm {
  std::string_view name;
  std::optional<std::size_t> rows, cols;
};

// The sizes of an operand in a call with these attributes, none of them left out.
struct SizeNames {
  std::string_view rows, cols;
};
SizeNames sizes_in(const Operand& operand, const Attributes& all);

// Returns the attributes as the schema has them, with those that were left out.
// REFUSES  unsupported   one that is missing, unknown, or of another kind
Outcome<Attributes> check_attributes(const Operation& operation, const Attributes& attributes);

// Returns the operand that each of `inputs` inputs is.
// REFUSES  unsupported   attributes as above; another number of inputs
Outcome<std::vector<const Operand*>> check_inputs(const Operation& operation, std::size_t inputs,
                                                  const Attributes& attributes);

// Returns how many outputs a call has.
// REFUSES  unsupported   inputs as above
Outcome<std::size_t> check_form(const Operation& operation, std::size_t inputs,
                                const Attributes& attributes);

// Returns the outputs of a call.
// REFUSES  unsupported   a form as above; a shape that fits no size of the schema; terms that
//                        cannot be dealt
Outcome<std::vector<OutputForm>> check_call(const Operation& operation,
                                            std::span<const Shape> inputs,
                                            const Attributes& attributes, const Evaluation& how);

}  // namespace plumb::bounds
