#include <atomic>
#include <barrier>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>

#include "number/rounding.hpp"
#include "world/world.hpp"

namespace plumb::world {
namespace {

// The state that ranks of one group share: a slot each, a barrier, and messages under way.
class Shared {
 public:
  Shared(int size, std::atomic<bool>& lost) : slots(size), barrier_(size), lost_(lost) {}

  void meet() {
    barrier_.arrive_and_wait();
    if (lost_) throw RankLost();
  }
  // Leaves the group: a rank that failed, or lost another one, comes to no further meeting.
  void leave() {
    barrier_.arrive_and_drop();
    const std::lock_guard lock(mutex_);
    arrived_.notify_all();
  }

  void post(int from, int to, int tag, Tensor x) {
    const std::lock_guard lock(mutex_);
    letters_[{from, to, tag}].push_back(std::move(x));
    arrived_.notify_all();
  }
  Tensor collect(int from, int to, int tag) {
    std::unique_lock lock(mutex_);
    std::deque<Tensor>& box = letters_[{from, to, tag}];
    arrived_.wait(lock, [&] { return !box.empty() || lost_; });
    if (box.empty()) throw RankLost();
    Tensor x = std::move(box.front());
    box.pop_front();
    return x;
  }

  // True as well where a rank is lost: collect() then says so.
  bool has(int from, int to, int tag) {
    const std::lock_guard lock(mutex_);
    return !letters_[{from, to, tag}].empty() || lost_;
  }

  std::vector<const void*> slots;

 private:
  std::barrier<> barrier_;
  std::atomic<bool>& lost_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  // Messages under way, by sender, receiver, tag.
  std::map<std::tuple<int, int, int>, std::deque<Tensor>> letters_;
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
    show(x.data(), [&] {
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
    show(&x, [&] {
      for (int r = 0; r < size(); ++r) total += *slot<double>(r);
    });
    x = total;
  }

  void max(std::span<float> x) override {
    std::vector<float> largest(x.begin(), x.end());
    show(x.data(), [&] {
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
    show(&x, [&] {
      for (int r = 0; r < size(); ++r) {
        const Tensor& other = *slot<Tensor>(r);
        all.values.insert(all.values.end(), other.values.begin(), other.values.end());
        all.rows += other.rows;
      }
    });
    return all;
  }

  std::vector<Tensor> exchange(const std::vector<Tensor>& to) override {
    std::vector<Tensor> got;
    show(&to, [&] {
      for (int r = 0; r < size(); ++r) got.push_back(slot<std::vector<Tensor>>(r)->at(rank_));
    });
    return got;
  }

  void send(int to, int tag, const Tensor& x) override { shared_.post(rank_, to, tag, x); }
  Tensor receive(int from, int tag) override { return shared_.collect(from, rank_, tag); }
  bool has_arrived(int from, int tag) override { return shared_.has(from, rank_, tag); }

 private:
  template <class T>
  const T* slot(int r) const {
    return static_cast<const T*>(shared_.slots[r]);
  }

  // Every rank shows something, every rank reads, none changes it before all have read.
  template <class Read>
  void show(const void* mine, const Read& read) {
    shared_.slots[rank_] = mine;
    if (size() > 1) shared_.meet();
    read();
    if (size() > 1) shared_.meet();
  }

  Shared& shared_;
  int rank_;
};

// The groups of one division, and each rank's place in its own.
struct Divided {
  struct Place {
    Shared* group;
    int rank;
  };
  std::map<int, std::unique_ptr<Shared>> groups;
  std::vector<Place> places;

  Divided(int size, const Division& colour, std::atomic<bool>& lost) {
    std::map<int, int> members;
    for (int r = 0; r < size; ++r) ++members[colour(r)];
    for (const auto& [c, n] : members) groups[c] = std::make_unique<Shared>(n, lost);
    members.clear();
    for (int r = 0; r < size; ++r) {
      places.push_back({groups.at(colour(r)).get(), members[colour(r)]++});
    }
  }
};

// Throws the cause where there is one: a lost rank is a consequence.
void throw_cause(const std::vector<std::exception_ptr>& errors) {
  std::exception_ptr first;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    if (!first) first = error;
    try {
      std::rethrow_exception(error);
    } catch (const RankLost&) {  // go on looking
    } catch (...) {
      throw;
    }
  }
  if (first) std::rethrow_exception(first);
}

class Threads final : public World {
 public:
  void run(int size, std::span<const Division> divisions, const Body& body) override;
  int rank() const override { return 0; }
  bool has_all() const override { return true; }
  std::vector<std::string> gather(const std::string& mine) override { return {mine}; }
};

void Threads::run(int size, std::span<const Division> divisions, const Body& body) {
  std::atomic<bool> lost = false;
  std::vector<std::unique_ptr<Divided>> divided;
  for (const Division& colour : divisions) {
    divided.push_back(std::make_unique<Divided>(size, colour, lost));
  }
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  const auto one = [&](int rank) {
    Groups groups;
    for (const auto& d : divided) {
      groups.push_back(std::make_unique<ThreadRank>(*d->places[rank].group, d->places[rank].rank));
    }
    try {
      body(rank, groups);
    } catch (...) {
      errors[rank] = std::current_exception();
      lost = true;
    }
    if (!lost) return;
    for (const auto& d : divided) d->places[rank].group->leave();
  };
  if (size == 1) {
    one(0);
  } else {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) threads.emplace_back(one, rank);
  }
  throw_cause(errors);
}

}  // namespace

World& threads() {
  static Threads world;
  return world;
}

}  // namespace plumb::world
