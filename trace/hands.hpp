// trace/hands.hpp: work that does not depend on other work, on several threads. Whoever asks keeps
// results by number, so that they do not depend on how many threads there are.
//
// TESTED   tests/trace/whole_test.cpp
#pragma once

#include <cstddef>
#include <functional>

#include "trace/sees.hpp"

namespace plumb::trace {

// Calls work(i) for each i below n, small i first. Throws what the smallest i threw.
void by_hands(std::size_t threads, std::size_t n, const std::function<void(std::size_t)>& work);

}  // namespace plumb::trace
