#include <cmath>

#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"
#include "number/rounding.hpp"

namespace plumb::injectors {
namespace {

// The number that the byte of x in E5M2 is in E4M3.
float read_as_e4m3(float x) {
  const float written = std::abs(round_to(x, e5m2));
  const int exponent = written == 0 ? -14 : std::max(std::ilogb(written), -14);
  const int field = written < 0x1p-14F ? 0 : exponent + 15;
  const int mantissa = static_cast<int>(std::ldexp(written, 2 - exponent)) & 3;
  const int wide = (field & 1) * 4 + mantissa, short_field = field / 2;
  const float read = short_field == 0
                         ? std::ldexp(static_cast<float>(wide), -9)
                         : std::ldexp(1 + static_cast<float>(wide) / 8, short_field - 7);
  return std::copysign(read, x);
}

void misread(std::span<float> x) {
  float largest = 0;
  for (const float v : x) largest = std::max(largest, std::abs(v));
  if (largest == 0) return;
  const float unit = std::ldexp(1.0F, std::ilogb(largest) - 10);
  for (float& v : x) v = read_as_e4m3(v / unit) * unit;
}

}  // namespace

extern const Bug rs_fp8_type_confusion{
    .id = "rs-fp8-type-confusion",
    .title = "Parts of an input gradient are written in E5M2 and read as E4M3",
    .kind = BugKind::communication,
    .story =
        "The sum of an input gradient travels in FP8 while products go on, by a kernel that was "
        "made for the format of forward. The bytes are of the other one. Here sums travel in the "
        "format of activations, so that the cast to FP8 is part of what is planted.",
    .seen_in = "TransformerEngine #1004, #1023",
    .needs = {.layout = "tp2,sp", .recipe = "fp8-current"},
    .hides_when = "sums that do not travel in FP8",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.blocks() - 1) + ".mlp.fc1/grad_in";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          joints.arrivals.came.replace(
              [n = static_cast<std::size_t>(c.tokens() * c.width)](
                  const Where& where, const Arrival& what, std::span<float> x) {
                const bool of_tokens = x.size() * static_cast<std::size_t>(where.cp_size) == n;
                const bool sum = what.way == Way::sum && what.axis == "tp";
                if (sum && of_tokens && where.backward) misread(x);
              });
        },
};

}  // namespace plumb::injectors
