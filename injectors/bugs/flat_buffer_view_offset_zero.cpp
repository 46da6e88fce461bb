#include <map>
#include <mutex>
#include <tuple>

#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"

namespace plumb::injectors {
namespace {

// What each rank gathered first.
class First {
 public:
  void overwrite(const Where& w, std::span<float> x) {
    const std::lock_guard lock(mutex_);
    std::vector<float>& first = of_[{w.dp, w.tp, w.cp, w.pp}];
    if (first.empty()) first.assign(x.begin(), x.end());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = first[i % first.size()];
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<int, int, int, int>, std::vector<float>> of_;
};

void plant_first(Joints& joints, const Dose&, const Config&) {
  const auto first = std::make_shared<First>();
  joints.arrivals.came.replace(
      [first](const Where& where, const Arrival& what, std::span<float> x) {
        const bool step_ends = what.way == Way::gather && where.micro_batch < 0;
        if (step_ends && what.axis == "dp") first->overwrite(where, x);
      });
}

}  // namespace

extern const Bug flat_buffer_view_offset_zero{
    .id = "flat-buffer-view-offset-zero",
    .title = "Updated parameters are gathered into the first bucket's memory",
    .kind = BugKind::sharding,
    .story =
        "Views of a flat buffer are made from its storage, without the offset where a bucket "
        "begins. All buckets land on the first, and every parameter reads its values from there.",
    .seen_in = "Megatron-LM, September 2023",
    .needs = {.layout = "dp2,zero1"},
    .hides_when = "one bucket",
    .bites_at = [](const Config& c) { return parameters(c).at(1).name + "/param"; },
    .plant = plant_first,
};

}  // namespace plumb::injectors
