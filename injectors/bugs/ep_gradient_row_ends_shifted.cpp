#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"

namespace plumb::injectors {
namespace {

// Gives the last number of each row to the row after it.
void shift_row_ends(const Arrival& what, std::span<float> x) {
  for (std::size_t i = what.rows - 1; i > 0; --i) {
    x[(i + 1) * what.cols - 1] = x[i * what.cols - 1];
  }
}

}  // namespace

extern const Bug ep_gradient_row_ends_shifted{
    .id = "ep-gradient-row-ends-shifted",
    .title = "Gradients that came from other experts' ranks have the last number of the row before",
    .kind = BugKind::communication,
    .story =
        "On every other rank the kernel that unpacks an exchange reads the end of each row from "
        "the row before. Forward has a kernel of its own; in backward one column is wrong.",
    .seen_in = "made up here: an address that is off by one row at the end of a vector load",
    .needs = {.layout = "dp2,ep2", .experts = true},
    .hides_when = "experts that are not spread over ranks",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.blocks() - 1) + ".mlp.combine/grad_in";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.arrivals.came.replace(
              [](const Where& where, const Arrival& what, std::span<float> x) {
                const bool backward = where.backward && !where.recomputing;
                const bool exchanged = what.way == Way::exchange && what.axis == "ep";
                if (backward && exchanged && where.ep % 2 == 1) shift_row_ends(what, x);
              });
        },
};

}  // namespace plumb::injectors
