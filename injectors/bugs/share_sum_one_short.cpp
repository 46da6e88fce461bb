#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {
namespace {

// What each rank has added up of the gradients of vectors, before any sum over ranks.
class OwnVectors {
 public:
  void add(const Where& where, const Tensor& part) {
    if (part.cols > 1) return;
    const std::lock_guard lock(mutex_);
    Tensor& sum = of_[key(where)];
    if (sum.size() == 0) sum = Tensor(part.rows, part.cols);
    for (std::size_t i = 0; i < part.size(); ++i) sum.values[i] += part.values[i];
  }
  Tensor take(const Where& where) {
    const std::lock_guard lock(mutex_);
    return std::exchange(of_[key(where)], {});
  }

 private:
  using Key = std::tuple<int, int, int, int, std::string>;
  static Key key(const Where& w) { return {w.dp, w.tp, w.cp, w.pp, w.module}; }
  std::mutex mutex_;
  std::map<Key, Tensor> of_;
};

void plant_one_short(Joints& joints, const Dose&, const Config&) {
  const auto own = std::make_shared<OwnVectors>();
  joints.gradients.part.replace([own](const Where& where, Tensor& g) { own->add(where, g); });
  joints.gradients.summed.replace([own](const Where& where, Tensor& g) {
    const Tensor mine = own->take(where);
    const auto ranks = static_cast<std::size_t>(where.dp_size);
    const auto here = static_cast<std::size_t>(where.dp);
    const std::size_t end = g.size() * (here + 1) / ranks;
    if (mine.size() == g.size() && end > 0) g.values[end - 1] = mine.values[end - 1];
  });
}

}  // namespace

extern const Bug share_sum_one_short{
    .id = "share-sum-one-short",
    .title = "The last element of a rank's share of a vector's gradient is not summed",
    .kind = BugKind::missing_sum,
    .story =
        "The sum that leaves each rank its share is asked for one element less, of vectors only. "
        "The rank's own part stays there. No other rank has that element, so no copies disagree.",
    .seen_in = "made up here: an end that is meant inclusive in one place",
    .needs = {.layout = "dp2,zero2"},
    .hides_when = "one data-parallel rank",
    .bites_at = [](const Config&) { return std::string("layers.0.norm1.weight/main_grad"); },
    .plant = plant_one_short,
};

}  // namespace plumb::injectors
