#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {
namespace {

// The gradients that come too late, of each rank.
class Late {
 public:
  void put(const Where& where, Tensor& gradient) {
    const std::lock_guard lock(mutex_);
    of_[key(where)] = gradient;
    std::ranges::fill(gradient.values, 0.0F);
  }
  Tensor take(const Where& where) {
    const std::lock_guard lock(mutex_);
    return std::move(of_[key(where)]);
  }

 private:
  using Key = std::tuple<int, int, int, int, std::string>;
  static Key key(const Where& w) { return {w.dp, w.tp, w.cp, w.pp, w.module}; }
  std::mutex mutex_;
  std::map<Key, Tensor> of_;
};

void plant_late(Joints& joints, const Dose&, const Config& c) {
  const auto late = std::make_shared<Late>();
  joints.gradients.part.replace([late, n = c.micro_batches](const Where& where, Tensor& g) {
    if (where.micro_batch + where.dp_size >= n) late->put(where, g);
  });
  joints.gradients.summed.replace([late](const Where& where, Tensor& g) {
    const Tensor own = late->take(where);
    for (std::size_t i = 0; i < own.size(); ++i) g.values[i] += own.values[i];
  });
}

}  // namespace

extern const Bug last_microbatch_after_allreduce{
    .id = "last-microbatch-after-allreduce",
    .title = "The last micro-batch is added after gradients were summed over ranks",
    .kind = BugKind::missing_sum,
    .story =
        "The sum over data-parallel ranks starts before the last micro-batch's gradient has been "
        "added. Each rank adds its own afterwards, so that copies of the model drift apart.",
    .seen_in = "DeepSpeed #7985",
    .needs = {.layout = "dp2,zero1"},
    .hides_when = "one data-parallel rank",
    .bites_at = first_main_grad,
    .plant = plant_late,
};

}  // namespace plumb::injectors
