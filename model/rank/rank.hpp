// model/rank/rank.hpp: the data and state of one rank while it computes its share of a step.
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp, tests/model/layout_test.cpp
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "kernels/backend.hpp"
#include "kernels/ops.hpp"
#include "model/rank/buckets.hpp"
#include "model/rank/channel.hpp"
#include "model/rank/context.hpp"
#include "model/rank/gathering.hpp"
#include "model/sees.hpp"
#include "trace/trace.hpp"

namespace plumb::model {

class Rank : public RankContext {
 public:
  Rank(const Training& run, const Joints& decisions, const Backend& products, Mesh groups,
       Streams& under_way, StaleGradients* of_step_before);
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  const Backend& backend;
  RankRecord record;

  // Positions of all tokens within their documents, where these are packed, by micro-batch. (T, 1)
  std::map<int, Tensor> within;
  // For Sharding::copies: the row numbers in the whole, and how many rows each rank has, by
  // expert-parallel rank, then by context.
  std::vector<std::size_t> copies_here, copies_of_ranks;

  Values state;                               // this rank's slice: name + /param, /master, ...
  std::map<std::string, float> largest_seen;  // of this step, by id: for delayed scaling
  // Accumulated over this rank's micro-batches, then summed in place while backward goes on:
  std::map<std::string, Tensor> main_grad;
  Buckets buckets{*this, main_grad};
  std::map<std::string, Tensor> reduced;  // the optimizer's part of it
  // What a stage sends to the other one of a tied matrix's gradient, where that is not its sum.
  std::map<std::string, Tensor> unsummed;
  // Losses and counts of routers and an extra head, added up over this rank's micro-batches, by id
  // without the micro-batch.
  std::map<std::string, Tensor> added_up;

  // This rank's slice of a parameter. ZeRO-3 gathers it: every data-parallel rank asks in the same
  // order.
  const Tensor& param(const std::string& name) {
    return l.zero < 3 ? *state.at(name + "/param") : gathering.whole(name);
  }
  Gathering gathering{*this, state};
  // Messages of keys and values and their gradients, from one context-parallel rank to the next.
  Channel ring{*this, {mesh.cp, Stream::ring_out, Stream::ring_in, "ring"}};
  // Rooms of rows that come while a rank computes (model/rank/arriving_rows.hpp): tokens that a
  // column-parallel layer multiplies, copies that experts take.
  std::shared_ptr<Tensor> room_of_rows, room_of_copies;
  const Tensor& weight(const std::string& module) { return param(module + ".weight"); }
  // The copy of a weight that a product takes (model/layers/operand.hpp).
  const Tensor& factor(const std::string& module, Product product) {
    const OperandCasts* casts = casts_of(module, product);
    if (casts == nullptr) return weight(module);
    const Contracted axis = axis_of_weight(module, product);
    return *state.at(casts->weights.copy_of(module + ".weight/operand", axis));
  }
  const Tensor& bias(const std::string& module) { return param(module + ".bias"); }
  // Returns this rank's tokens of the residual stream, from those of its context.
  Tensor own_tokens(Tensor x) const;
  // The rows of a tensor of all tokens of the micro-batch that a context-parallel rank has, in its
  // order.
  std::vector<std::size_t> rows_of(int rank) const;
  // The tokens of each sequence that a context-parallel rank has.
  const std::vector<std::size_t>& positions_of(int rank) const {
    return positions_[static_cast<std::size_t>(rank)];
  }

  // The module name of such a matrix's gradient on the last stage:
  bool on_both_ends(const Parameter& p) const { return model::on_both_ends(c, p); }
  std::string gradient_at_end() const { return c.tied() ? "head.weight" : "mtp.embedding.weight"; }

  // Records a tensor under m<micro-batch>/<name>, and how it came about. A tensor that backward
  // computes again is recorded as a replica beside that of forward.
  void tap(const std::string& name, const Tensor& x, Sharding sharding, const Format& format,
           const Evaluation& ran);
  // The same, of a tensor that a joint may touch first.
  void tap(const std::string& name, Tensor& x, Sharding sharding, const Format& format,
           const Evaluation& ran);
  // Records what a module has made, before another takes it in: in a rewritten run x is then what
  // was made beforehand (model/plan/rewriting.hpp), of which this rank takes its own piece.
  void hand_on(const std::string& name, Tensor& x, Sharding sharding, const Format& format,
               const Evaluation& ran);
  // What modules take in, in a rewritten run: whole tensors, by id. Null: what others made.
  const Values* rewritten = nullptr;
  // Records without the micro-batch in front.
  void tap_step(const std::string& id, const Tensor& x, Sharding sharding, const Format& format,
                const Evaluation& ran);
  void tap_step(const std::string& id, Tensor& x, Sharding sharding, const Format& format,
                const Evaluation& ran);
  // Records a tensor that is not needed any more: it is not copied.
  void tap_step(const std::string& id, Tensor&& x, Sharding sharding, const Format& format,
                const Evaluation& ran);
  // Records a leaf: nothing says how it came about.
  void tap_leaf(const std::string& id, const Tensor& x, Sharding sharding, const Format& format);
  // Records this rank's share of the elements of its slice of a parameter (model/rank/shares.hpp).
  // (n, 1)
  void tap_share(const std::string& id, const Tensor& share, const Parameter& p,
                 const Format& format);

  // Is it recorded at all? (A run that is not traced records its loss, the norm of its gradients and
  // its next state only.)
  bool records(const std::string& id) const;
  // The id under which a tensor is recorded now.
  std::string recorded_as(const std::string& id) const;
  // The place of x in the whole tensor.
  Placement placed(const Tensor& x, Sharding sharding) const;
  // Rounds every element with the random bits of `key` and its place in the whole tensor.
  static void round_stochastically(Tensor& x, const Placement& lies, const Format& format,
                                   std::uint64_t key);

  // Evaluations as executed.
  Evaluation plain() const { return {1, fp32, r.compute}; }
  Evaluation on_stream() const { return {1, fp32, r.stream}; }
  static Evaluation in_fp32() { return {1, fp32, fp32}; }

  // Rounds a result to the format of activations, to nearest or by this rank's draws.
  void round(Tensor& x);
  // The same to that of the residual stream.
  void round_to_stream(Tensor& x) {
    if (r.stream == r.compute) round(x);
  }
  // op(a) op(b) in FP32; in a linear layer, in the chains that the recipe has for that product.
  Tensor multiply(View<float> a, View<float> b) const;
  Tensor multiply(View<float> a, View<float> b, const std::string& module, Product product) const;

  // Adds a micro-batch's part to the step's sum, once, even where backward computes it again.
  void add_up(const std::string& id, const Tensor& part);
  // Adds a micro-batch's gradient of a parameter to this rank's, and records it. The last one sends
  // the sum.
  void collect(const std::string& parameter, Tensor gradient, Sharding sharding,
               const Evaluation& ran);

 private:
  std::vector<std::vector<std::size_t>> positions_;  // by context-parallel rank
  std::map<std::string, int> collected_;             // summands of a gradient
  bool traced_;
  std::uint64_t drawn_ = 0;           // elements that this rank has rounded by chance
  std::set<std::string> next_state_;  // ids of what the next step starts from

  // The format that a tensor is recorded in: of activations the one that they were rounded to.
  Format format_of(const Format& promised) const;
  Placement placed_heads() const;
  // Is it the gradient of a matrix of first and last stage, here as one of them?
  bool is_of_both_ends(const std::string& gradient) const;
  // The tensor that a micro-batch's gradient is added to; null: zeros.
  const Tensor* so_far(const std::string& parameter);
};

}  // namespace plumb::model
