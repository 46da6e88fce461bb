// probe/tables.hpp: sums outside of products, as devices that are not there and the kernels of the
// program take them.
//
// TESTED   tests/probe/sums_test.cpp, tests/probe/softmax_test.cpp
#pragma once

#include "probe/sees.hpp"
#include "probe/subject.hpp"

namespace plumb::probe {

// (M, N) -> (N, 1): the sum of each column, in the order and with the rounding of the device.
Tensor emulated_column_sum(const Tensor& x, const Emulated& device);
// (M, N): exponentials about the largest number of a row, divided by their sum, which the device
// takes. The exponential is that of number/exponential.hpp.
Tensor emulated_softmax(const Tensor& x, const Emulated& device);

// Gives a subject the sums of two such devices.
void offer_emulated(Subject& subject, const Emulated& column_sum, const Emulated& softmax);
// Gives a subject the sums and the softmax of kernels/reference, and its casts.
void offer_kernels(Subject& subject);

}  // namespace plumb::probe
