#include <bit>

#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {

extern const Bug stuck_bit_in_one_lane{
    .id = "stuck-bit-in-one-lane",
    .title = "One lane of one device's products never sets a bit of the mantissa",
    .kind = BugKind::hardware,
    .story =
        "A unit that multiplies has a bit that is stuck at zero, in one of its 64 columns. "
        "Numbers there are too small by at most three per cent, on one of the data-parallel ranks.",
    .seen_in = "made up here: a stuck bit, as reports of silent data corruption describe them",
    .needs = {.layout = "dp2"},
    .hides_when = "bits below the last that the format keeps",
    .dose = "bit (18)",
    .largest_dose = 31,
    .bites_at = [](const Config& c) { return "m1/layers.0" + c.queries() + "/out"; },
    .plant =
        [](Joints& joints, const Dose& dose, const Config&) {
          const int bit = dose.magnitude > 0 ? static_cast<int>(dose.magnitude) : 18;
          const std::uint32_t others = ~(1U << (bit % 32));
          joints.linear.after_product.replace(
              [others](const Where& where, const View<float>&, const View<float>&, Tensor& y) {
                if (where.dp != where.dp_size - 1) return;
                for (std::size_t i = 0; i < y.rows; ++i) {
                  for (std::size_t j = 37; j < y.cols; j += 64) {
                    y(i, j) = std::bit_cast<float>(std::bit_cast<std::uint32_t>(y(i, j)) & others);
                  }
                }
              });
        },
};

}  // namespace plumb::injectors
