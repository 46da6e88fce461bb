#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "injectors/bug.hpp"
#include "model/joints/experts.hpp"

namespace plumb::injectors {
namespace {

// The buffer that a rank fills with copies of tokens, by layer and direction, from one micro-batch
// to the next.
class Buffers {
 public:
  void fill(const Where& w, std::size_t filled, Tensor& rows) {
    const std::lock_guard lock(mutex_);
    Tensor& before = of_[{w.dp, w.tp, w.cp, w.pp, w.module}];
    if (before.size() == rows.size()) {
      const std::size_t begin = filled * rows.cols;
      std::copy_n(before.values.begin(), rows.size() - begin,
                  rows.values.begin() + static_cast<std::ptrdiff_t>(begin));
    }
    before = rows;
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<int, int, int, int, std::string>, Tensor> of_;
};

void plant_buffers(Joints& joints, const Dose&, const Config&) {
  const auto buffers = std::make_shared<Buffers>();
  joints.experts.copied.replace([buffers](const Where& where, std::size_t filled, Tensor& rows) {
    buffers->fill(where, filled, rows);
  });
}

}  // namespace

extern const Bug moe_padding_uninitialised{
    .id = "moe-padding-uninitialised",
    .title = "Rows of experts' inputs that no token fills hold what the memory held",
    .kind = BugKind::stale_data,
    .story =
        "The buffer of copies is as long as all copies, and only rows that tokens fill are written. "
        "Fresh memory is zero, so the first micro-batch is right; then the padding holds tokens of "
        "the one before, and scales see them.",
    .seen_in = "TransformerEngine #2547, #2026",
    .needs = {.layout = "tp2",
              .recipe = "fp8-current",
              .experts = true,
              .settings = {{"capacity", "1.0"}},
              .micro_batches = 2},
    .hides_when = "no capacity; one micro-batch in the first step",
    .bites_at = [](const Config&) { return std::string("m1/layers.0.mlp.dispatch/out"); },
    .plant = plant_buffers,
};

}  // namespace plumb::injectors
