// trace/sum_parts.hpp: a sum that ranks share, without one of its parts.
//
// Parts are those of the node's evaluation: slices of a product's inner dimension, or the tokens of
// each rank; of what adds whole tensors each of these. A part is taken out by zeros in its place, in
// FP64.
//
// TESTED   tests/trace/signature_test.cpp
#pragma once

#include <string>
#include <vector>

#include "bounds/operation.hpp"
#include "trace/graph.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

class SumParts {
 public:
  SumParts(const Node& node, std::vector<const Matrix<double>*> inputs, std::size_t output);

  // 0 where the node's sum has one part, or where nobody knows which input carries its terms.
  std::size_t count() const { return terms_.size(); }
  // "part 2 of 4 of its sum", or the tensor that it is.
  std::string name(std::size_t r) const;
  // What the output would be without part r; not for operations that are no sum of their terms.
  Matrix<double> without(std::size_t r) const;

 private:
  // Rows or columns of an input that one part has; all of the input if `whole`.
  struct Terms {
    std::size_t input;
    bool rows, whole;
    std::vector<std::size_t> numbers;
  };
  void of_dimension(std::size_t input, bool rows);

  const Node& node_;
  std::vector<const Matrix<double>*> inputs_;
  std::size_t output_;
  std::vector<Terms> terms_;  // by part
};

}  // namespace plumb::trace
