#include "model/step/pipeline.hpp"

#include <span>

#include "model/joints/gradients.hpp"
#include "model/joints/layout.hpp"
#include "model/layers/block.hpp"
#include "model/layers/embedding.hpp"
#include "model/layers/head.hpp"
#include "model/layers/mtp.hpp"
#include "model/rank/channel.hpp"
#include "model/rank/offload.hpp"
#include "model/spec/schedule.hpp"

namespace plumb::model {
namespace {

// One micro-batch on its way through one stage: the tensors of forward that backward needs.
struct Pass {
  std::vector<Saved> layers;
  Tensor from_top;  // gradient of the input of final norm and head
};

class Pipeline {
 public:
  // `loss`: that of the runs before this one, to which it adds.
  Pipeline(Rank& rank, std::span<const Batch> batches, Tensor& loss)
      : rank_(rank), batches_(batches), loss_(loss) {}

  void run() {
    const auto orders = schedule(rank_.where.pp_size, stages(), static_cast<int>(batches_.size()));
    for (const std::vector<Task>& order : orders) {
      for (const Task& t : order) ticks_[{t.backward, t.micro_batch, t.stage}] = t.tick;
    }
    const std::vector<Task>& order = orders[static_cast<std::size_t>(rank_.where.pp)];
    if (rank_.waits != nullptr) rank_.waits->begin(rank_.mesh.pp);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Task& task = order[i];
      rank_.where.micro_batch = batch(task).number;
      rank_.where.backward = task.backward;
      Tensor x = receive(task);
      if (i + 1 < order.size()) expect_early(order[i + 1], task.tick);
      task.backward ? backward(task, std::move(x)) : forward(task, std::move(x));
    }
    channel_.finish();
    if (rank_.waits != nullptr) rank_.waits->end(rank_.mesh.pp, tag_of_the_end());
    rank_.where.micro_batch = -1;
    rank_.where.backward = false;
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

  // The tag of stage s's message about a micro-batch, to the stage after it or before it.
  int tag(const Task& t, int s) const {
    return (t.micro_batch * stages() + s) * 2 + (t.backward ? 1 : 0);
  }
  int tag_of_the_end() const { return static_cast<int>(batches_.size()) * stages() * 2; }
  void send(const Task& t, int to_stage, const Tensor& x) {
    channel_.send(to_stage % rank_.where.pp_size, tag(t, t.stage), x, t.backward);
  }
  // The stage whose message a task takes; -1 where it takes none.
  int source(const Task& t) const {
    if (!t.backward) return t.stage - 1;
    return is_last(t) ? -1 : t.stage + 1;
  }
  void expect(const Task& t) {
    const auto tokens = static_cast<std::size_t>(rank_.c.tokens(batch(t).number) / rank_.l.cp);
    const std::size_t rows = rank_.l.sp ? rank_.last(tokens) - rank_.first(tokens) : tokens;
    channel_.expect(source(t) % rank_.where.pp_size, tag(t, source(t)), t.backward, rows,
                    static_cast<std::size_t>(rank_.c.width));
    expected_ = true;
  }
  // Expects the next task's message while another task runs, if it was sent before that one began:
  // so no rank can wait for itself.
  void expect_early(const Task& t, int tick) {
    if (source(t) >= 0 && ticks_.at({t.backward, t.micro_batch, source(t)}) < tick) expect(t);
  }
  Tensor receive(const Task& t) {
    if (source(t) < 0) return {};
    if (!expected_) expect(t);
    expected_ = false;
    return channel_.take(t.backward);
  }

  void forward(const Task& t, Tensor x) {
    Pass& pass = under_way_[{t.stage, t.micro_batch}];
    const auto [first, last] = layers(t);
    pass.layers.resize(static_cast<std::size_t>(std::max(last - first, 0)));
    if (t.stage == 0) x = embed(rank_, batch(t));
    if (first < last) prefetch(first);
    for (int l = first; l < last; ++l) {
      if (l + 1 < last) prefetch(l + 1);
      Saved& saved = pass.layers[static_cast<std::size_t>(l - first)];
      if (idles(l)) {
        saved.x = x;  // the first of a group that is computed again may be idle
      } else {
        x = layer_forward(rank_, l, std::move(x), saved);
      }
      if (rank_.l.recompute > 0) forget(saved, begins_at(l, first) == l);
      if (rank_.l.offload_activations && begins_at(l, first) == l) {
        offloaded_.park(l, std::exchange(saved.x, {}));
      }
    }
    if (!is_last(t)) return send(t, t.stage + 1, x);
    Tensor loss;
    pass.from_top = heads(rank_, batch(t), x, loss);
    add_to(loss_, loss);
    rank_.gathering.let_go(-1);
  }

  void backward(const Task& t, Tensor dx) {
    Pass pass = std::move(under_way_[{t.stage, t.micro_batch}]);
    under_way_.erase({t.stage, t.micro_batch});
    if (is_last(t)) dx = std::move(pass.from_top);
    const auto [first, last] = layers(t);
    if (first < last && rank_.l.recompute == 0) prefetch(last - 1);
    for (int l = last - 1; l >= first; --l) {
      const auto i = static_cast<std::size_t>(l - first);
      bring_back(pass, l, first);
      if (idles(l)) continue;
      if (pass.layers[i].qkv.x.by_columns().size() == 0) compute_again(pass, first, l);
      if (l > first && rank_.l.recompute == 0) prefetch(l - 1);
      dx = layer_backward(rank_, l, pass.layers[i], dx);
      pass.layers[i] = {};
    }
    if (t.stage > 0) return send(t, t.stage - 1, dx);
    embed_backward(rank_, batch(t), dx);
    rank_.gathering.let_go(-1);
  }

  bool idles(int layer) const { return is_idle(rank_.c, layer, rank_.step); }
  void prefetch(int layer) {
    if (!idles(layer)) rank_.gathering.prefetch(layer);
  }

  // The layer at which a layer's backward begins: its own, or the first of those computed again.
  int begins_at(int layer, int first) const {
    return rank_.l.recompute == 0 ? layer : layer - (layer - first) % rank_.l.recompute;
  }

  // Brings the layer's tensors back from the host, and sends for those of the backward after it.
  void bring_back(Pass& pass, int layer, int first) {
    const int from = begins_at(layer, first);
    if (offloaded_.has(from))
      pass.layers[static_cast<std::size_t>(from - first)].x = offloaded_.take(from);
    if (from > first) offloaded_.bring_back(begins_at(from - 1, first));
  }

  // Keeps at most the input of the first layer of a group, or this rank's share of it.
  void forget(Saved& saved, bool first_of_group) {
    Tensor x = first_of_group ? std::move(saved.x) : Tensor();
    saved = {};
    saved.x = is_split() && first_of_group ? kept_share(x) : std::move(x);
  }

  // Do tensor-parallel ranks share the inputs, which each of them has whole?
  bool is_split() const { return rank_.l.split && !rank_.l.sp && rank_.where.tp_size > 1; }
  Tensor kept_share(const Tensor& x) {
    const Slice promised = slice(x.size(), rank_.where.tp_size, rank_.where.tp);
    const Slice mine = rank_.joints.recompute.keeps(rank_.where, x.size(), promised);
    Tensor share(promised.last - promised.first, 1);
    std::copy_n(x.values.begin() + static_cast<std::ptrdiff_t>(mine.first),
                std::min(share.size(), mine.last - mine.first), share.values.begin());
    return share;
  }
  // Gathers the shares of all ranks.
  Tensor gathered(Tensor share) const {
    if (!is_split()) return share;
    const Tensor all = rank_.mesh.tp.gather_rows(share);
    const auto width = static_cast<std::size_t>(rank_.c.width);
    Tensor x(all.rows / width, width, to_be_written);
    std::copy(all.values.begin(), all.values.end(), x.values.begin());
    return x;
  }

  // Computes the layers of a group, up to `layer`, from the input of the group's first one.
  void compute_again(Pass& pass, int first, int layer) {
    int l = begins_at(layer, first);
    rank_.where.recomputing = true;
    const Tensor of_chunk = gathered(pass.layers[static_cast<std::size_t>(l - first)].x);
    Tensor x = of_chunk;
    prefetch(l);
    for (; l <= layer; ++l) {
      if (l < layer) prefetch(l + 1);
      if (idles(l)) continue;
      x = rank_.joints.recompute.takes_in(rank_.where, of_chunk, std::move(x));
      x = layer_forward(rank_, l, std::move(x), pass.layers[static_cast<std::size_t>(l - first)]);
    }
    rank_.where.recomputing = false;
  }

  Rank& rank_;
  std::span<const Batch> batches_;
  Channel channel_{rank_,
                   {rank_.mesh.pp, Stream::stage_out, Stream::stage_in, "stage", rank_.waits}};
  OffloadedInputs offloaded_{rank_};
  std::map<std::tuple<bool, int, int>, int> ticks_;  // of all ranks' tasks
  bool expected_ = false;                            // the next task's message
  Tensor& loss_;
  std::map<std::pair<int, int>, Pass> under_way_;  // by stage and micro-batch
};

}  // namespace

Tensor forward_and_backward(Rank& rank, const std::vector<Batch>& batches) {
  const auto runs = static_cast<std::size_t>(rank.l.runs);
  const std::size_t each = batches.size() / runs;
  Tensor loss(1, 1);
  for (std::size_t r = 0; r < runs; ++r) {
    if (r > 0 && !rank.joints.gradients.kept_between_runs(rank.where, static_cast<int>(r))) {
      rank.main_grad.clear();
    }
    Pipeline(rank, std::span(batches).subspan(r * each, each), loss).run();
  }
  return loss;
}

}  // namespace plumb::model
