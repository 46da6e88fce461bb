// trace/judge/operands.hpp: which tensor is which input or output of an operation.
//
//   by name     a tensor with the name of the schema, or with the one that `names` gives; of inputs
//               that repeat, x_1, x_2 ...
//   in order    a tensor in memory without a name, a .npy, or the only tensor of a file if no name of
//               the schema is its own: the inputs that have no tensor yet, in the order of the schema
//
// A tensor becomes a matrix: all its dimensions but the last are rows. Where the schema says one
// column, all are; a vector elsewhere is one row.
//
// REFUSES  with one sentence that names files and tensors: inputs that are nowhere or in two places,
//          files and names that nothing asks for
// TESTED   tests/trace/judge_test.cpp
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bounds/check_call.hpp"
#include "trace/judge/given.hpp"
#include "trace/judge/words.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

struct Source {
  std::string name;  // of the operand; empty: by the names in the file, or in order
  std::filesystem::path file;
  std::shared_ptr<GivenTensor> tensor = {};  // in memory, instead of a file
};

struct GivenOperand {
  std::string name;
  std::shared_ptr<GivenTensor> tensor;
  Shape shape;  // as a matrix

  // "'x' (FILE)"
  std::string text() const;
  // "[3, 17]": an element in the tensor's own shape.
  std::string place(std::size_t element) const { return place_in(tensor->shape(), element); }
};

using TensorNames = std::map<std::string, std::string>;

// The attributes of a call: flags that were not given are 0. Throws Failure on those that are
// missing or wrong.
Attributes attributes_of(const Operation& operation, const Attributes& given, const Words& words);

std::vector<GivenOperand> inputs_in(const Operation& operation, const std::vector<Source>& sources,
                                    const TensorNames& names, const Attributes& attributes,
                                    const Words& words);

// Outputs by their places in the call; those that no source has are left out.
std::map<std::size_t, GivenOperand> outputs_in(const Operation& operation, std::size_t inputs,
                                               const std::vector<Source>& sources,
                                               const TensorNames& names,
                                               const Attributes& attributes, const Words& words);

}  // namespace plumb::trace
