// model/state/rounding_key.hpp: keys of random decisions: stochastic roundings and dropout. They
// depend on seed, step and canonical id; the counter is the element of the whole tensor. So the
// layout does not matter.
//
// TESTED   tests/model/settings_test.cpp (dropout), tests/model/one_rank_test.cpp
#pragma once

#include <string_view>

#include "model/sees.hpp"
#include "model/spec/config.hpp"
#include "number/philox.hpp"

namespace plumb::model {

// The key is below 2^53, so that an attribute of a promise holds it.
inline std::uint64_t rounding_key(const Config& config, int step, std::string_view id) {
  const std::uint64_t of_step = key_of(config.seed, "rounding") + static_cast<std::uint64_t>(step);
  return key_of(of_step, id) >> 11;
}

// The key of a mask of dropout; `id` names the module in its micro-batch.
inline std::uint64_t dropout_key(const Config& config, int step, std::string_view id) {
  const std::uint64_t of_step = key_of(config.seed, "dropout") + static_cast<std::uint64_t>(step);
  return key_of(of_step, id) >> 11;
}

}  // namespace plumb::model
