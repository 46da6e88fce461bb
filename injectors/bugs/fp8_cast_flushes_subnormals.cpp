#include <algorithm>
#include <cmath>

#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"

namespace plumb::injectors {
namespace {

// Of a tensor in E4M3 whose largest magnitude is in the last full binade below 448 or up to it:
// zeroes what is below the smallest normal number.
void flush_subnormals(Tensor& x) {
  float largest = 0;
  for (const float v : x.values) largest = std::max(largest, std::abs(v));
  if (largest == 0) return;
  const int exponent = std::ilogb(largest);
  const float fraction = std::ldexp(largest, -exponent);  // in [1, 2); 448 is 1.75 x 2^8
  const int top = fraction > 1.75F ? 7 : 8;
  const float smallest = std::ldexp(1.0F, exponent - top - 6);
  for (float& v : x.values) {
    if (std::abs(v) < smallest) v = 0;
  }
}

}  // namespace

extern const Bug fp8_cast_flushes_subnormals{
    .id = "fp8-cast-flushes-subnormals",
    .title = "Small numbers become zero when activations are cast to FP8",
    .kind = BugKind::precision,
    .story =
        "The kernel that casts is built with a flag that flushes subnormal numbers. What is below "
        "the smallest normal number of E4M3, a fifteenth power of two below the largest, is zero.",
    .seen_in = "made up here: a compiler's flag for fast arithmetic",
    .needs = {.layout = "dp2", .recipe = "fp8-current"},
    .hides_when = "tensors without such small numbers",
    .bites_at = nullptr,  // where the first such number is
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.tensors.made.replace([](const Where&, const std::string& id, Tensor& x) {
            if (id.starts_with("m") && id.ends_with("/operand")) flush_subnormals(x);
          });
        },
};

}  // namespace plumb::injectors
