#include "model/pipeline.hpp"

#include "model/layers/block.hpp"
#include "model/layers/linear.hpp"
#include "model/layers/norm.hpp"
#include "model/layers/operand.hpp"
#include "model/schedule.hpp"

namespace plumb {
namespace {

// One micro-batch on its way through one stage: what backward needs of forward.
struct Pass {
  std::vector<Saved> layers;
  Tensor from_top;  // the gradient that comes out of head and final norm
};

class Pipeline {
 public:
  Pipeline(Rank& rank, const std::vector<Batch>& batches) : rank_(rank), batches_(batches) {}

  Tensor run() {
    const auto n = static_cast<int>(batches_.size());
    const auto orders = schedule(rank_.where.pp_size, stages(), n);
    for (const Task& task : orders[static_cast<std::size_t>(rank_.where.pp)]) {
      rank_.where.micro_batch = batch(task).number;
      task.backward ? backward(task) : forward(task);
    }
    rank_.where.micro_batch = -1;
    return std::move(loss_);
  }

 private:
  int stages() const { return static_cast<int>(rank_.stages.size()); }
  bool is_last(const Task& t) const { return t.stage + 1 == stages(); }
  const Batch& batch(const Task& t) const {
    return batches_[static_cast<std::size_t>(t.micro_batch)];
  }
  const Stage& layers(const Task& t) const {
    return rank_.stages[static_cast<std::size_t>(t.stage)];
  }

  // What stage s makes of a micro-batch for the one after it, or for the one before it.
  int tag(const Task& t, int s) const {
    return (t.micro_batch * stages() + s) * 2 + (t.backward ? 1 : 0);
  }
  void send(const Task& t, int to_stage, const Tensor& x) {
    rank_.mesh.pp.send(to_stage % rank_.where.pp_size, tag(t, t.stage), x);
  }
  Tensor receive(const Task& t, int from_stage) {
    return rank_.mesh.pp.receive(from_stage % rank_.where.pp_size, tag(t, from_stage));
  }

  void forward(const Task& t) {
    Pass& pass = under_way_[{t.stage, t.micro_batch}];
    Tensor x = t.stage == 0 ? embed(rank_, batch(t)) : receive(t, t.stage - 1);
    const auto [first, last] = layers(t);
    pass.layers.resize(static_cast<std::size_t>(std::max(last - first, 0)));
    for (int l = first; l < last; ++l) {
      Saved& saved = pass.layers[static_cast<std::size_t>(l - first)];
      x = layer_forward(rank_, l, std::move(x), saved);
      if (rank_.l.recompute > 0) forget(saved, (l - first) % rank_.l.recompute == 0);
    }
    if (!is_last(t)) return send(t, t.stage + 1, x);
    const Operand h = input_operand(
        rank_, "head", all_tokens(rank_, norm_layer(rank_, "final_norm", x)), Held::tokens);
    Tensor loss;
    pass.from_top =
        norm_layer_backward(rank_, "final_norm", x, head_and_loss(rank_, batch(t), h, loss));
    add_to(loss_, loss);
    rank_.release();
  }

  void backward(const Task& t) {
    Pass pass = std::move(under_way_[{t.stage, t.micro_batch}]);
    under_way_.erase({t.stage, t.micro_batch});
    Tensor dx = is_last(t) ? std::move(pass.from_top) : receive(t, t.stage + 1);
    const auto [first, last] = layers(t);
    for (int l = last - 1; l >= first; --l) {
      const auto i = static_cast<std::size_t>(l - first);
      if (pass.layers[i].norm1.by_columns().size() == 0) compute_again(pass, first, l);
      dx = layer_backward(rank_, l, pass.layers[i], dx);
      pass.layers[i] = {};
    }
    if (t.stage > 0) return send(t, t.stage - 1, dx);
    embed_backward(rank_, batch(t), dx);
    rank_.release();
  }

  // Keeps at most what the first layer of a group took in.
  static void forget(Saved& saved, bool first_of_group) {
    Tensor x = first_of_group ? std::move(saved.x) : Tensor();
    saved = {};
    saved.x = std::move(x);
  }

  // The layers of a group, up to `layer`, from what the group's first one took in.
  void compute_again(Pass& pass, int first, int layer) {
    int l = layer - (layer - first) % rank_.l.recompute;
    rank_.where.recomputing = true;
    const Tensor of_chunk = pass.layers[static_cast<std::size_t>(l - first)].x;
    Tensor x = of_chunk;
    for (; l <= layer; ++l) {
      x = rank_.joints.recompute.takes_in(rank_.where, of_chunk, std::move(x));
      x = layer_forward(rank_, l, std::move(x), pass.layers[static_cast<std::size_t>(l - first)]);
    }
    rank_.where.recomputing = false;
  }

  Rank& rank_;
  const std::vector<Batch>& batches_;
  Tensor loss_ = Tensor(1, 1);
  std::map<std::pair<int, int>, Pass> under_way_;  // by stage and micro-batch
};

}  // namespace

Tensor forward_and_backward(Rank& rank, const std::vector<Batch>& batches) {
  return Pipeline(rank, batches).run();
}

}  // namespace plumb
