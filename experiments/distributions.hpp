// experiments/distributions.hpp: the data on which bounds and moments are held against errors.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace plumb {

inline constexpr std::array distributions{"zero-mean",    "positive",   "lognormal",
                                          "heavy-tailed", "cancelling", "constant"};

// One number: normal, uniform in [0, 1), lognormal, Student's t with three degrees; 0.7. Cancelling
// is normal, too: whoever asks makes neighbours cancel. `at` says which number of the stream `key`.
double draw_from(std::string_view distribution, std::uint64_t key, std::uint64_t at);

}  // namespace plumb
