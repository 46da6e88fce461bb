// bounds/examples/shaped.hpp: a call of an operation in a shape that somebody asks for.
//
//   MxKxN           gemm: (M, K) times (K, N)
//   MxK             batched_gemm: four of (M, K) times (K, M)
//   ROWSxCOLUMNS    all others; attention and rope: SEQUENCExF, F = 3 head_dim, head_dim even
//
// Inputs are what `draw` makes of two keys (which input, which element); weights, labels and
// optimizer states are plain.
//
// TESTED   tests/bounds/shaped_test.cpp
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bounds/examples/example.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

// Returns the number at a place of an input, before it is rounded to the format of the inputs.
using DrawAt = std::function<double(std::uint64_t input, std::uint64_t element)>;
double normal_at(std::uint64_t input, std::uint64_t element);

// Throws Failure, saying what is wanted, for an unknown operation and for a shape that does not fit
// or makes more than 2^24 values in a matrix or 2^28 products.
Example shaped_example(const std::string& operation, const std::string& shape, const Format& inputs,
                       const DrawAt& draw = normal_at);

// The sizes that a shape names. Throws Failure as above.
std::vector<std::size_t> sizes_of_shape(const std::string& operation, const std::string& shape);

// The operations that can be asked for by shape, in the order of operations.inc.
std::vector<std::string> shaped_operations();
// A shape that fits the operation.
std::string usual_shape(const std::string& operation);

}  // namespace plumb::bounds
