#include "experiments/other_orders.hpp"

#include <algorithm>

#include "bounds/collective.hpp"
#include "bounds/operation.hpp"
#include "number/philox.hpp"

namespace plumb::experiments {
namespace {

using Algorithm = Collective::Algorithm;

Attributes attributes_of(AddingOrder order) {
  const auto as = [](Algorithm algorithm, double rotation) {
    Attributes attributes{{"algorithm", static_cast<double>(algorithm)}};
    if (algorithm == Algorithm::ring) attributes["rotation"] = rotation;
    return attributes;
  };
  switch (order) {
    case AddingOrder::ring:
      return as(Algorithm::ring, 1);
    case AddingOrder::tree:
      return as(Algorithm::tree, 0);
    case AddingOrder::backwards:
      return as(Algorithm::ring, 0);
    case AddingOrder::switched:
      break;
  }
  return as(Algorithm::any_order, 0);
}

// All ranks of a group shuffle alike: by the number of the sum.
void shuffle(std::vector<Tensor>& parts, std::uint64_t number) {
  for (std::size_t left = parts.size(); left > 1; --left) {
    const double drawn = uniform(number, left) * static_cast<double>(left);
    std::swap(parts[left - 1], parts[static_cast<std::size_t>(drawn)]);
  }
}

class Adding final : public Communicator {
 public:
  Adding(Communicator& group, AddingOrder order) : group_(group), order_(order) {}

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  void sum(std::span<float> x, const Format& wire) override {
    if (size() == 1) return;
    Tensor mine(1, x.size());
    std::ranges::copy(x, mine.values.begin());
    const Tensor all = group_.gather_rows(mine);
    std::vector<Tensor> parts;
    for (std::size_t r = 0; r < all.rows; ++r) {
      Tensor& part = parts.emplace_back(1, x.size());
      std::copy_n(all.row(r), x.size(), part.values.begin());
    }
    if (order_ == AddingOrder::backwards) std::ranges::reverse(parts);
    if (order_ == AddingOrder::switched) shuffle(parts, ++sums_);
    std::ranges::copy(added(parts, wire).values, x.begin());
  }
  void sum(double& x) override { group_.sum(x); }
  void max(std::span<float> x) override { group_.max(x); }
  Tensor gather_rows(const Tensor& x) override { return group_.gather_rows(x); }
  std::vector<Tensor> exchange(const std::vector<Tensor>& to) override {
    return group_.exchange(to);
  }
  void send(int to, int tag, const Tensor& x) override { group_.send(to, tag, x); }
  Tensor receive(int from, int tag) override { return group_.receive(from, tag); }
  bool has_arrived(int from, int tag) override { return group_.has_arrived(from, tag); }

 private:
  Tensor added(const std::vector<Tensor>& parts, const Format& wire) const {
    static const Operation& all_reduce = known_operation("all_reduce");
    const Attributes attributes = attributes_of(order_);
    RealRoundings roundings;
    Call<float> call{{}, attributes, {1, wire, fp32}, roundings};
    for (const Tensor& part : parts) call.inputs.push_back(&part);
    return std::move(all_reduce.evaluate(call).front());
  }

  Communicator& group_;
  AddingOrder order_;
  std::uint64_t sums_ = 0;
};

class ThreadsThatAdd final : public World {
 public:
  explicit ThreadsThatAdd(AddingOrder order) : order_(order) {}

  void run(int size, std::span<const Division> divisions, const Body& body) override {
    threads().run(size, divisions, [&](int rank, Groups& groups) {
      Groups adding;
      for (auto& group : groups) adding.push_back(std::make_unique<Adding>(*group, order_));
      body(rank, adding);
    });
  }
  bool adds_in_rank_order() const override { return false; }
  int rank() const override { return 0; }
  bool has_all() const override { return true; }
  std::vector<std::string> gather(const std::string& mine) override { return {mine}; }

 private:
  AddingOrder order_;
};

}  // namespace

std::string_view name_of(AddingOrder order) {
  constexpr std::string_view names[] = {"ring", "tree", "backwards", "switched"};
  return names[static_cast<std::size_t>(order)];
}

std::unique_ptr<World> threads_that_add(AddingOrder order) {
  return std::make_unique<ThreadsThatAdd>(order);
}

}  // namespace plumb::experiments
