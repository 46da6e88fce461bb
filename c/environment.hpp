// c/environment.hpp: rounding to nearest and subnormals as they are, while a function runs.
//
// The thread of a caller may round otherwise, or flush: PyTorch sets that on request, compilers' fast
// modes when a program starts. Threads begin with what their parent has.
// TESTED   tests/c/threads_test.cpp
#pragma once

#include <cfenv>

#include "c/sees.hpp"

namespace plumb::c {

class DefaultArithmetic {
 public:
  DefaultArithmetic() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;
  ~DefaultArithmetic() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
};

}  // namespace plumb::c
