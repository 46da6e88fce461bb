// model/rank.hpp: what one rank knows and holds while it computes its share of a step.
#pragma once

#include <map>
#include <set>
#include <string>

#include "kernels/backend.hpp"
#include "kernels/ops.hpp"
#include "model/buckets.hpp"
#include "model/gathering.hpp"
#include "model/held.hpp"
#include "model/joints/joints.hpp"
#include "model/leftovers.hpp"
#include "model/mail.hpp"
#include "model/mesh.hpp"
#include "model/training.hpp"
#include "trace/trace.hpp"

namespace plumb {

class Rank {
 public:
  Rank(const Training& run, const Joints& decisions, const Backend& products, Mesh groups,
       Overlap& under_way, Leftovers* of_step_before);
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  const Config& c;
  const Recipe& r;
  const Layout& l;
  const Joints& joints;
  const Backend& backend;
  Mesh mesh;
  Overlap& overlap;
  Leftovers* leftovers;  // of the step before; this step's at its end; none: nobody asks
  int step;
  Where where;
  RankRecord record;
  std::vector<Stage> stages;  // all of them; stage s is this rank's if s mod pp is its number

  // Positions of all tokens within their documents, where these are packed, by micro-batch. (T, 1)
  std::map<int, Tensor> within;
  // Of the rows that Held::copies speaks of: their numbers in the whole, and how many of it each
  // rank has, by expert-parallel rank, then by context.
  std::vector<std::size_t> copies_here, copies_of_ranks;

  Values state;                               // this rank's slice: name + /param, /master, ...
  std::map<std::string, float> largest_seen;  // of this step, by id: for delayed scaling
  // Accumulated over this rank's micro-batches, then summed in place while backward goes on:
  std::map<std::string, Tensor> main_grad;
  Buckets buckets{*this};
  std::map<std::string, Tensor> reduced;  // what the optimizer has of it
  // What routers and an extra head give in all micro-batches of this rank: losses and counts, by id
  // without the micro-batch.
  std::map<std::string, Tensor> added_up;

  // This rank's slice of a parameter. Under ZeRO-3 it is gathered for it: every data-parallel rank
  // asks in the same order.
  const Tensor& param(const std::string& name) {
    return l.zero < 3 ? *state.at(name + "/param") : gathering.whole(name);
  }
  Gathering gathering{*this};
  // Of keys and values and their gradients, from one context-parallel rank to the next.
  Mail ring{*this, {mesh.cp, Lane::ring_out, Lane::ring_in, "ring"}};
  const Tensor& weight(const std::string& module) { return param(module + ".weight"); }
  // What that product sees of a weight: model/layers/operand.hpp.
  const Tensor& factor(const std::string& module, Product product) {
    if (!r.operands || !r.operands->take(product)) return weight(module);
    const Contracted axis = axis_of_weight(module, product);
    return *state.at(r.operands->weights.copy_of(module + ".weight/operand", axis));
  }
  const Tensor& bias(const std::string& module) { return param(module + ".bias"); }
  bool gpt() const { return c.family == Family::gpt; }
  // First index and end of this rank's slice of n.
  std::size_t first(std::size_t n) const { return n * where.tp / where.tp_size; }
  std::size_t last(std::size_t n) const { return n * (where.tp + 1) / where.tp_size; }
  // This rank's tokens of the residual stream, from those of its context.
  Tensor own_tokens(Tensor x) const;
  // Rows of a tensor of all tokens that a context-parallel rank has, in its order.
  std::vector<std::size_t> rows_of(int rank) const;
  // Which tokens of each sequence a context-parallel rank has.
  const std::vector<std::size_t>& positions_of(int rank) const {
    return positions_[static_cast<std::size_t>(rank)];
  }

  // Does this rank have the first stage, with the embedding? The last, with head and loss?
  bool begins() const { return where.pp == 0; }
  bool ends() const { return where.pp == where.pp_size - 1; }
  bool holds(const Parameter& p) const;
  // The ranks that hold the same slice of a parameter, for other micro-batches.
  Communicator& copies_of(const std::string& parameter) const {
    return of_expert(parameter) ? mesh.expert_copies : mesh.dp;
  }
  static bool of_expert(const std::string& parameter) {
    return parameter.find(".experts.") != std::string::npos;
  }
  // What the gradient of such a matrix is called on the last stage:
  bool on_both_ends(const Parameter& p) const { return plumb::on_both_ends(c, p); }
  std::string gradient_at_end() const { return gpt() ? "head.weight" : "mtp.embedding.weight"; }

  Where at(const std::string& module) const {
    Where w = where;
    w.module = module;
    return w;
  }

  // Records a tensor under m<micro-batch>/<name>, and how it came about. What backward computes
  // again is recorded beside what forward made, as a replica of it.
  void tap(const std::string& name, const Tensor& x, Held held, const Format& format,
           const Evaluation& ran);
  // The same without the micro-batch in front.
  void tap_step(const std::string& id, const Tensor& x, Held held, const Format& format,
                const Evaluation& ran);
  // The same of what is not needed any more: it is not copied.
  void tap_step(const std::string& id, Tensor&& x, Held held, const Format& format,
                const Evaluation& ran);
  // A leaf: recorded, but nothing says how it came about.
  void tap_leaf(const std::string& id, const Tensor& x, Held held, const Format& format);
  // This rank's share of the elements of its slice of a parameter: model/zero.hpp.     // (n, 1)
  void tap_share(const std::string& id, const Tensor& share, const Parameter& p,
                 const Format& format);

  // Is it recorded at all? (What a run that is not traced leaves to the next step, and the loss.)
  bool records(const std::string& id) const;
  // The id under which a tensor is recorded now.
  std::string recorded_as(const std::string& id) const;
  // Where x lies in the whole tensor.
  Placement placed(const Tensor& x, Held held) const;
  // Every element by what `key` and its place in the whole tensor draw.
  static void round_stochastically(Tensor& x, const Placement& lies, const Format& format,
                                   std::uint64_t key);

  // Evaluations as executed.
  Evaluation plain() const { return {1, fp32, r.compute}; }
  static Evaluation in_fp32() { return {1, fp32, fp32}; }

  void round(Tensor& x) const { round_to_format(x.values, r.compute); }
  // op(a) op(b) in FP32; of a linear layer, in such chains as the recipe has that product in.
  Tensor multiply(View<float> a, View<float> b) const;
  Tensor multiply(View<float> a, View<float> b, Product product) const;

  // What the event concerns is not touched before, unless the joint thinks otherwise. `of`: a
  // parameter, or what it is.
  void wait(const Event& event, Wait what, const std::string& of) {
    if (joints.overlap.waits(at(of), what, overlap.done(event))) overlap.wait(event);
  }

  // Adds a micro-batch's part to what is added up, once, where backward computes it again.
  void add_up(const std::string& id, const Tensor& part);
  // Adds a micro-batch's gradient of a parameter to what the rank has, and records it. The last one
  // sets the sum out.
  void collect(const std::string& parameter, Tensor gradient, Held held, const Evaluation& ran);

 private:
  std::vector<std::vector<std::size_t>> positions_;  // by context-parallel rank
  std::map<std::string, int> collected_;             // summands of a gradient
  bool traced_;
  std::set<std::string> kept_;  // ids of what the next step starts from

  // What a micro-batch's gradient is added to; null: zeros.
  const Tensor* so_far(const std::string& parameter);
};

}  // namespace plumb
