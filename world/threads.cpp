#include <atomic>
#include <barrier>
#include <exception>
#include <memory>
#include <thread>

#include "bounds/number/rounding.hpp"
#include "world/world.hpp"

namespace plumb {
namespace {

// What the ranks of one group share: a slot each, and a barrier.
class Shared {
 public:
  Shared(int size, std::atomic<bool>& lost) : slots(size), barrier_(size), lost_(lost) {}

  void meet() {
    barrier_.arrive_and_wait();
    if (lost_) throw RankLost();
  }
  void leave() { barrier_.arrive_and_drop(); }

  std::vector<const void*> slots;

 private:
  std::barrier<> barrier_;
  std::atomic<bool>& lost_;
};

class ThreadRank final : public Communicator {
 public:
  ThreadRank(Shared& shared, int rank) : shared_(shared), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(shared_.slots.size()); }

  void sum(std::span<float> x, const Format& wire) override {
    if (size() == 1) return;
    round_in_place(x, wire);
    std::vector<float> total(x.begin(), x.end());
    exchange(x.data(), [&] {
      std::copy_n(slot<float>(0), x.size(), total.begin());
      for (int r = 1; r < size(); ++r) {
        const float* other = slot<float>(r);
        for (std::size_t i = 0; i < x.size(); ++i) total[i] += other[i];
        round_in_place(total, wire);
      }
    });
    std::copy(total.begin(), total.end(), x.begin());
  }

  void sum(double& x) override {
    double total = 0;
    exchange(&x, [&] {
      for (int r = 0; r < size(); ++r) total += *slot<double>(r);
    });
    x = total;
  }

  void max(std::span<float> x) override {
    std::vector<float> largest(x.begin(), x.end());
    exchange(x.data(), [&] {
      for (int r = 0; r < size(); ++r) {
        for (std::size_t i = 0; i < x.size(); ++i) {
          largest[i] = std::max(largest[i], slot<float>(r)[i]);
        }
      }
    });
    std::copy(largest.begin(), largest.end(), x.begin());
  }

  Tensor gather_rows(const Tensor& x) override {
    Tensor all(0, x.cols);
    exchange(&x, [&] {
      for (int r = 0; r < size(); ++r) {
        const Tensor& other = *slot<Tensor>(r);
        all.values.insert(all.values.end(), other.values.begin(), other.values.end());
        all.rows += other.rows;
      }
    });
    return all;
  }

 private:
  template <class T>
  const T* slot(int r) const {
    return static_cast<const T*>(shared_.slots[r]);
  }

  // Everybody shows something, everybody reads, nobody changes it before all have read.
  template <class Read>
  void exchange(const void* mine, const Read& read) {
    shared_.slots[rank_] = mine;
    if (size() > 1) shared_.meet();
    read();
    if (size() > 1) shared_.meet();
  }

  Shared& shared_;
  int rank_;
};

}  // namespace

void on_threads(int dp, int tp, const std::function<void(int, Mesh)>& body) {
  std::atomic<bool> lost = false;
  std::vector<std::unique_ptr<Shared>> tp_groups, dp_groups;
  for (int d = 0; d < dp; ++d) tp_groups.push_back(std::make_unique<Shared>(tp, lost));
  for (int t = 0; t < tp; ++t) dp_groups.push_back(std::make_unique<Shared>(dp, lost));
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(dp * tp));
  const auto rank_body = [&](int d, int t) {
    ThreadRank in_tp(*tp_groups[d], t);
    ThreadRank in_dp(*dp_groups[t], d);
    try {
      body(d * tp + t, {in_tp, in_dp});
    } catch (...) {
      errors[d * tp + t] = std::current_exception();
      lost = true;
    }
    if (lost) {
      tp_groups[d]->leave();
      dp_groups[t]->leave();
    }
  };
  if (dp * tp == 1) {
    rank_body(0, 0);
  } else {
    std::vector<std::jthread> threads;
    for (int d = 0; d < dp; ++d) {
      for (int t = 0; t < tp; ++t) threads.emplace_back(rank_body, d, t);
    }
  }
  std::exception_ptr first;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    if (!first) first = error;
    try {
      std::rethrow_exception(error);
    } catch (const RankLost&) {  // a consequence, not the cause
    } catch (...) {
      throw;
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace plumb
