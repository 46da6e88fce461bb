// experiments/distributions.hpp: the data on which bounds and moments are compared with errors.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "experiments/sees.hpp"

namespace plumb::experiments {

inline constexpr std::array distributions{"zero-mean",    "positive",   "lognormal",
                                          "heavy-tailed", "cancelling", "constant"};

// Returns one number: normal, uniform in [0, 1), lognormal, Student's t with three degrees; 0.7.
// Cancelling data is normal, too: the caller makes neighbours cancel. `at` is the number's place in
// the stream `key`.
double draw_from(std::string_view distribution, std::uint64_t key, std::uint64_t at);

}  // namespace plumb::experiments
