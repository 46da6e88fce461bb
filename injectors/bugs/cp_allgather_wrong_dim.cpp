#include <algorithm>

#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"

namespace plumb::injectors {
namespace {

// Row i of rank r goes to row i ranks + r.
void side_by_side(std::size_t ranks, std::size_t cols, std::span<float> x) {
  const std::vector<float> gathered(x.begin(), x.end());
  const std::size_t rows = x.size() / cols / ranks;
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < rows; ++i) {
      std::copy_n(gathered.begin() + static_cast<std::ptrdiff_t>((r * rows + i) * cols), cols,
                  x.begin() + static_cast<std::ptrdiff_t>((i * ranks + r) * cols));
    }
  }
}

}  // namespace

extern const Bug cp_allgather_wrong_dim{
    .id = "cp-allgather-wrong-dim",
    .title = "Keys and values of other contexts are gathered along the wrong axis",
    .kind = BugKind::communication,
    .story =
        "What context-parallel ranks have is put side by side where it should lie one below the "
        "other, and read as if it did. Every query sees all keys, but not where they belong.",
    .seen_in = "torchtitan #3206",
    .needs = {.layout = "cp2:allgather"},
    .hides_when = "one context",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.attn.core/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          joints.arrivals.came.replace(
              [width = static_cast<std::size_t>(c.qkv_width())](
                  const Where& where, const Arrival& what, std::span<float> x) {
                const bool keys = what.cols * static_cast<std::size_t>(where.tp_size) == width;
                if (what.way == Way::gather && what.axis == "cp" && keys) {
                  side_by_side(static_cast<std::size_t>(where.cp_size), what.cols, x);
                }
              });
        },
};

}  // namespace plumb::injectors
