#include "injectors/generic.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <tuple>

#include "model/joints/attention.hpp"
#include "model/joints/experts.hpp"
#include "model/joints/gradients.hpp"
#include "model/joints/layers.hpp"
#include "model/joints/layout.hpp"
#include "model/joints/memory.hpp"
#include "model/joints/optimizer.hpp"
#include "number/rounding.hpp"

namespace plumb::injectors {
namespace {

using Memory = std::vector<float>;

void zeros(std::span<float> x, Memory&) { std::ranges::fill(x, 0.0F); }
void twice(std::span<float> x, Memory&) {
  for (float& v : x) v *= 2;
}
void swapped(std::span<float> x, Memory&) {
  const std::size_t half = x.size() / 2;
  std::swap_ranges(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(half),
                   x.end() - static_cast<std::ptrdiff_t>(half));
}
void shifted(std::span<float> x, Memory&) {
  if (!x.empty()) std::rotate(x.begin(), x.begin() + 1, x.end());
}
void stale(std::span<float> x, Memory& before) {
  Memory now(x.begin(), x.end());
  if (before.size() == now.size()) std::ranges::copy(before, x.begin());
  before = std::move(now);
}
void coarse(std::span<float> x, Memory&) {
  for (float& v : x) v = round_to(v, e5m2);
}
void bit(std::span<float> x, Memory&) {
  if (x.empty()) return;
  float& hit = x[x.size() / 2];
  hit = std::bit_cast<float>(std::bit_cast<std::uint32_t>(hit) ^ (1U << 22));
}

constexpr Corruption all_corruptions[] = {
    {"bit", bit, false},       {"stale", stale, true},     {"zeros", zeros, true},
    {"twice", twice, false},   {"swapped", swapped, true}, {"shifted", shifted, true},
    {"coarse", coarse, false},
};

// Joints whose numbers are names: of experts, of tokens.
bool of_whole_numbers(const std::string& joint) {
  return joint == "router.after_choice" || joint == "loss.labels_ahead";
}

// What each rank was given, by the module and what else tells one use from another.
class Memories {
 public:
  void touch(const Corruption& how, const Where& w, const std::string& use, std::span<float> x) {
    const std::lock_guard lock(mutex_);
    how.touch(x, of_[{w.dp, w.tp, w.cp, w.pp, w.module + use}]);
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<int, int, int, int, std::string>, Memory> of_;
};

template <class Answer>
struct Kind {
  std::string name;
  std::function<Answer(Answer)> wrong;
};

std::vector<Kind<bool>> kinds_of(bool) {
  return {{"not", [](bool right) { return !right; }}};
}
std::vector<Kind<float>> kinds_of(float) {
  return {{"twice", [](float right) { return 2 * right; }}};
}
std::vector<Kind<double>> kinds_of(double) {
  return {{"twice", [](double right) { return 2 * right; }}};
}
std::vector<Kind<Format>> kinds_of(const Format&) {
  return {{"coarser",
           [](const Format& right) { return right.precision > bf16.precision ? bf16 : e5m2; }}};
}
std::vector<Kind<int>> kinds_of(int) {
  return {{"other", [](int right) { return right == 0 ? 1 : 0; }}};
}
std::vector<Kind<std::size_t>> kinds_of(std::size_t) {
  return {{"zero", [](std::size_t) { return std::size_t(0); }}};
}
std::vector<Kind<std::vector<std::size_t>>> kinds_of(const std::vector<std::size_t>&) {
  return {{"swapped", [](std::vector<std::size_t> right) {
             if (!right.empty()) std::swap(right.front(), right.back());
             return right;
           }}};
}
std::vector<Kind<Slice>> kinds_of(const Slice&) {
  return {{"short", [](Slice right) {
             if (right.last > right.first) --right.last;
             return right;
           }}};
}
std::vector<Kind<Stage>> kinds_of(const Stage&) {
  return {{"short", [](Stage right) {
             if (right.last > right.first) --right.last;
             return right;
           }}};
}

std::span<float> numbers_of(Tensor& x) { return x.values; }
std::span<float> numbers_of(std::span<float> x) { return x; }

// What tells two uses of a joint of the same module apart.
std::string use_of(const std::string& id) {
  const std::size_t slash = id.find('/');
  return id.front() == 'm' && slash != id.npos ? id.substr(slash) : id;
}
std::string use_of(const Arrival& what) {
  return std::string(what.axis) + std::to_string(static_cast<int>(what.way));
}
template <class Other>
std::string use_of(const Other&) {
  return {};
}

class Maker {
 public:
  // `of`: returns the joint among those of a run.
  template <class R, class... Args, class Of>
  void add(const std::string& name, const Joint<R(const Where&, Args...)>& joint, Of of) {
    using J = Joint<R(const Where&, Args...)>;
    if constexpr (std::is_void_v<R>) {
      each_corruption(name, [of](Joints& joints, const Corruption& how, auto memories) {
        of(joints).replace([&how, memories](const Where& where, Args... args) {
          const std::string use = (use_of(args) + ...);
          auto last = std::tie(args...);
          memories->touch(how, where, use, numbers_of(std::get<sizeof...(Args) - 1>(last)));
        });
      });
    } else if constexpr (std::is_same_v<R, Tensor>) {
      each_corruption(
          name, [of, right = joint.answer()](Joints& joints, const Corruption& how, auto memories) {
            of(joints).replace([&how, memories, right](const Where& where, Args... args) {
              Tensor x = right(where, std::forward<Args>(args)...);
              memories->touch(how, where, {}, x.values);
              return x;
            });
          });
    } else if constexpr (std::is_same_v<R, std::shared_ptr<const Tensor>>) {
      each_corruption(
          name, [of, right = joint.answer()](Joints& joints, const Corruption& how, auto memories) {
            of(joints).replace([&how, memories, right](const Where& where, Args... args) {
              const std::string use = (use_of(args) + ...);
              Tensor x = *right(where, std::forward<Args>(args)...);
              memories->touch(how, where, use, x.values);
              return std::make_shared<const Tensor>(std::move(x));
            });
          });
    } else {
      for (const auto& kind : kinds_of(R())) {
        put(name, kind.name, [of, right = joint.answer(), wrong = kind.wrong](Joints& joints) {
          typename J::Function other = [right, wrong](const Where& where, Args... args) {
            return wrong(right(where, std::forward<Args>(args)...));
          };
          of(joints).replace(other);
        });
      }
    }
  }
  std::vector<GenericFault> all;

 private:
  void put(const std::string& joint, std::string_view kind, std::function<void(Joints&)> plant) {
    all.push_back({joint, std::string(kind), std::move(plant)});
  }
  template <class Plant>
  void each_corruption(const std::string& joint, const Plant& plant) {
    for (const Corruption& how : all_corruptions) {
      if (of_whole_numbers(joint) && !how.keeps_whole_numbers) continue;
      put(joint, how.kind,
          [plant, &how](Joints& joints) { plant(joints, how, std::make_shared<Memories>()); });
    }
  }
};

}  // namespace

std::span<const Corruption> corruptions() { return all_corruptions; }

std::vector<GenericFault> generic_faults() {
  const Joints right;
  Maker make;
#define SUBJECT(name)                \
  {                                  \
    const std::string of_it = #name; \
    const auto subject = [](auto& joints) -> auto& { return joints.name; };
#define JOINT(result, name, parameters, ...) \
  make.add(                                  \
      of_it + "." #name,                     \
      subject(right).name, [subject](Joints & joints) -> auto& { return subject(joints).name; });
#define END(name) }
#include "model/joints/all.inc"
#include "model/joints/end.inc"
  return std::move(make.all);
}

}  // namespace plumb::injectors
