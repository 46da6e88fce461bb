// model/run/reference.hpp: the trace of one device, computed by executing the promise.
//
// TESTED   tests/model/one_rank_test.cpp
#pragma once

#include "model/sees.hpp"
#include "model/spec/training.hpp"
#include "trace/trace.hpp"

namespace plumb::model {

// Returns the reference's trace; `values`: what the executor made of the promise (trace/execute).
Trace reference_trace(const Training& run, Values values);

}  // namespace plumb::model
