// experiments/healthy.hpp: calls without any fault, the truth about them, and the distance between.
// Bounds and the tolerances of others are compared with it.
#pragma once

#include <string>
#include <vector>

#include "bounds/operation.hpp"
#include "experiments/sees.hpp"

namespace plumb::experiments {

// gemm: 40 x n by n x 40. softmax, rmsnorm, layernorm: 40 rows of n. `cancelling`: neighbours along
// a product's sum add up to little.
struct Question {
  std::string operation, distribution;
  std::size_t n;
  std::vector<Matrix<double>> inputs;
  Attributes attributes;
};
Question asked(const std::string& operation, const std::string& distribution, std::size_t n,
               const Format& format);

// Products with their certificate; other values in FP64, good for 2^-48 and better
// (bounds/proof/running_error.hpp).
Matrix<double> true_result(const Question& q);

struct Compared {
  double nearest = 0;       // largest error / bound
  double looseness = 0;     // largest bound / largest error; 0: no error
  std::size_t outside = 0;  // elements whose error exceeds the bound
};
Compared compared(const Tensor& computed, const Matrix<double>& truth, const Matrix<double>& bound);

}  // namespace plumb::experiments
