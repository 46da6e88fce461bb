#include "model/estimate/traffic.hpp"

#include <cmath>
#include <map>

#include "model/rank/rank.hpp"
#include "model/spec/ownership.hpp"
#include "model/spec/schedule.hpp"
#include "number/outcome.hpp"

namespace plumb::model {
namespace {

// One rank's share of a model, and its messages.
class Sender {
 public:
  Sender(const Config& config, const Recipe& recipe, const Layout& layout, int rank)
      : c(config), r(recipe), l(layout), at(coordinates(layout, rank)) {
    const std::vector<Stage> all = stages_of(l, c);
    for (int s = at.pp; s < l.stages(); s += l.pp) {
      layers += all[static_cast<std::size_t>(s)].last - all[static_cast<std::size_t>(s)].first;
    }
  }

  std::vector<Travel> all() {
    for_layers();
    if (at.pp == 0) for_embedding();
    if (at.pp == l.pp - 1) for_head();
    between_stages();
    for_gradients();
    for_parameters();
    return std::move(travels_);
  }

 private:
  // `calls` calls of so many numbers each, along an axis of so many ranks.
  void add(const std::string& what, const std::string& axis, int ranks, const std::string& how,
           const Format& format, double calls, double numbers) {
    if (ranks == 1 || calls == 0 || numbers <= 1) return;
    travels_.push_back({what, axis, how, format, calls, calls * numbers});
  }

  bool here(const Parameter& p) const { return holds(c, l, at, stages_of(l, c), p); }
  double batches() const { return static_cast<double>(c.micro_batches) / l.dp; }
  double tokens() const { return static_cast<double>(c.tokens()) / l.cp; }  // of a micro-batch here
  double own_tokens() const { return l.sp ? tokens() / l.tp : tokens(); }
  double stream() const { return tokens() * c.width; }
  double qkv() const { return tokens() * c.qkv_width() / l.tp; }
  double heads() const { return tokens() * c.width / l.tp; }
  // How often forward goes through a layer.
  int forwards() const { return l.recompute > 0 ? 2 : 1; }

  void for_layers() {
    const double n = layers * batches();
    if (l.sp) {
      add("activations, for products", "tp", l.tp, "gather", r.compute, 2 * n * forwards(),
          stream() / l.tp);
      add("gradients, for products", "tp", l.tp, "gather", r.compute, 2 * n, stream() / l.tp);
    }
    add("attn.proj/out", "tp", l.tp, "sum", r.wire, n * forwards(), stream());
    c.latent > 0 ? for_latent(n) : add("attn.qkv/grad_in", "tp", l.tp, "sum", r.wire, n, stream());
    for_attention(n);
    c.experts > 0 ? for_experts(n) : for_mlp(n);
  }

  // Every rank has the latent, and the columns that all heads share of their keys.
  void for_latent(double n) {
    const double latent = tokens() * c.latent, shared = tokens() * c.shared_key;
    add("attn.q/grad_in", "tp", l.tp, "sum", r.wire, n, stream());
    add("attn.kv_up/grad_in", "tp", l.tp, "sum", r.wire, n, latent);
    add("attn.shared_key/grad_out", "tp", l.tp, "sum", r.wire, n, shared);
    if (!l.sp) return;
    for (const double all : {latent, shared}) {
      add("latents and shared keys", "tp", l.tp, "gather", r.compute, n * forwards(), all / l.tp);
      add("their gradients, for products", "tp", l.tp, "gather", r.compute, n, all / l.tp);
    }
  }

  void for_mlp(double n) {
    add("mlp.fc2/out", "tp", l.tp, "sum", r.wire, n * forwards(), stream());
    add("mlp.fc1/grad_in", "tp", l.tp, "sum", r.wire, n, stream());
  }

  void for_attention(double n) {
    if (l.context == Context::allgather) {
      add("keys and values", "cp", l.cp, "gather", r.compute, n * forwards(), qkv());
      add("gradients of keys and values", "cp", l.cp, "sum", fp32, n, qkv() * l.cp);
      return;
    }
    if (l.context == Context::ring) return for_ring(n);
    const int again = l.selective ? 1 : 0;
    add("attn.qkv/out for heads", "cp", l.cp, "exchange", r.compute, n * forwards(), qkv());
    add("attn.core/out for tokens", "cp", l.cp, "exchange", r.compute, n * (forwards() + again),
        heads());
    add("attn.proj/grad_in for heads", "cp", l.cp, "exchange", r.compute, n, heads());
    add("attn.qkv/grad_out for tokens", "cp", l.cp, "exchange", r.compute, n, qkv());
    if (c.sinks == 0) return;
    add("attn.sinks/grad_out for tokens", "cp", l.cp, "exchange", r.compute, n,
        tokens() * c.heads / l.tp);
  }

  // Each rank's block visits all others; gradients go one step further, home.
  void for_ring(double n) {
    const double block = tokens() * 2 * c.kv_heads * c.head_dim() / l.tp;
    const int again = l.selective ? 1 : 0;
    add("keys and values, round", "cp", l.cp, "send", r.compute,
        n * (forwards() + again + 1) * (l.cp - 1) * pieces, block / pieces);
    add("their gradients, round", "cp", l.cp, "send", fp32, n * l.cp * pieces, block / pieces);
  }

  // Every copy of a token is a row; tensor-parallel ranks have all rows of their experts, those of
  // each expert-parallel rank's micro-batch by themselves.
  void for_experts(double n) {
    for_routers(n * forwards());
    const double rows = tokens() * c.top_k * c.width;
    add("mlp.experts.fc2/out", "tp", l.tp, "sum", r.wire, n * forwards() * l.ep, rows / l.ep);
    add("mlp.experts.fc1/grad_in", "tp", l.tp, "sum", r.wire, n * l.ep, rows / l.ep);
    add("copies to experts", "ep", l.ep, "exchange", r.compute, n * (forwards() + 1), rows);
    add("copies from experts", "ep", l.ep, "exchange", r.compute, n * (forwards() + 1), rows);
  }

  // Each rank rates and counts its own tokens; all learn of all choices.
  void for_routers(double n) {
    if (l.sp) {
      add("probabilities of experts", "tp", l.tp, "gather", fp32, n, own_tokens() * c.experts);
      add("choices of experts", "tp", l.tp, "gather", fp32, n, own_tokens() * c.top_k);
      add("copies that experts take", "tp", l.tp, "sum", fp32, n, c.experts);
    }
    add("choices of experts", "cp", l.cp, "gather", fp32, n, tokens() * c.top_k);
    add("choices of experts", "ep", l.ep, "gather", fp32, n, c.tokens() * c.top_k);
    add("copies that experts take", "cp", l.cp, "sum", fp32, n, c.experts);
    const auto [axis, ranks] = shared_tokens(l.sp);
    add("balance loss", axis, ranks, "sum", fp32, n, c.experts);
    if (c.balance_bias > 0) {
      add("copies that experts took", "dp", l.dp, "sum", fp32, layers, c.experts);
    }
  }

  // The axis along which each rank has some tokens, or some heads of some tokens.
  std::pair<std::string, int> shared_tokens(bool over_tp) const {
    if (!over_tp || l.tp == 1) return {"cp", l.cp};
    if (l.cp == 1) return {"tp", l.tp};
    return {"tokens", l.tp * l.cp};
  }

  void for_embedding() {
    add("embedding/out", "tp", l.tp, "sum", fp32, batches(), stream());
    if (l.sp) {
      add("embedding/grad_out", "tp", l.tp, "gather", r.stream, batches(), stream() / l.tp);
    }
  }

  void for_head() {
    const double n = batches();
    if (l.sp) add("final_norm/out", "tp", l.tp, "gather", r.compute, n, stream() / l.tp);
    add("largest logits", "tp", l.tp, "max", fp32, n, tokens());
    add("softmax of the loss", "tp", l.tp, "sum", fp32, (c.label_smoothing > 0 ? 3 : 2) * n,
        tokens());
    add("head/grad_in", "tp", l.tp, "sum", r.wire, n, stream());
    add("loss by token, and its mask", "cp", l.cp, "gather", fp32, 2 * n, tokens());
  }

  void between_stages() {
    const double letters = own_tokens() * c.width;
    const int all = l.stages();
    double forward = 0, backward = 0;  // stages of this rank that send
    for (int s = at.pp; s < all; s += l.pp) {
      forward += s + 1 < all ? 1 : 0;
      backward += s > 0 ? 1 : 0;
    }
    add("activations between stages", "pp", l.pp, "send", r.stream, forward * batches() * pieces,
        letters / pieces);
    add("gradients between stages", "pp", l.pp, "send", r.stream, backward * batches() * pieces,
        letters / pieces);
  }

  double slice_of(const Parameter& p) const {
    const double size = static_cast<double>(p.rows) * p.cols;
    return p.sharding == Sharding::whole ? size : size / l.tp;
  }
  int copies_of(const Parameter& p) const { return p.expert < 0 ? l.dp : l.expert_copies(); }
  std::string axis_of(const Parameter& p) const { return p.expert < 0 ? "dp" : "expert_copies"; }
  static std::string axis_of_shares(const Parameter& p) {
    return p.expert < 0 ? "sharers" : "expert_sharers";
  }
  bool tied(const Parameter& p) const { return c.tied() && p.name == "embedding.weight"; }

  // Does every tensor-parallel rank make the whole gradient, of all tokens?
  static bool done_alike(const Parameter& p) {
    const std::string module = p.name.substr(0, p.name.rfind('.'));
    return module.ends_with(".kv_down") || module.ends_with(".shared_key");
  }

  // A tied matrix has two gradients; each lies where its stage does.
  int gradients_of(const Parameter& p) const { return tied(p) && l.pp == 1 ? 2 : 1; }

  void for_gradients() {
    for (const Parameter& p : parameters(c)) {
      if (!here(p)) continue;
      const double n = gradients_of(p), size = slice_of(p);
      const bool of_heads =
          p.name.ends_with(".q_norm.weight") || p.name.ends_with(".k_norm.weight");
      const bool in_parts = p.sharding == Sharding::whole && p.expert < 0 && !done_alike(p);
      const auto [axis, ranks] = shared_tokens((l.sp || of_heads) && in_parts);
      const int visits = p.expert < 0 ? 1 : l.ep;
      add("gradients of tokens", axis, ranks, "sum", fp32, n * batches() * visits, size);
      add("gradients of micro-batches", axis_of(p), copies_of(p), "sum", fp32, n, size);
      if (tied(p)) {
        const double sent = l.zero >= 2 ? size / l.sharers_of(false) : size;
        add("gradient of the tied matrix", "pp", l.pp, "send", fp32, 1, sent);
      }
    }
  }

  void for_parameters() {
    if (l.zero == 0) return;
    for (const Parameter& p : parameters(c)) {
      if (!here(p)) continue;
      const int sharers = l.sharers_of(p.expert >= 0);
      const std::string axis = l.sharers == 0 ? axis_of(p) : axis_of_shares(p);
      const double even = slice_of(p) / sharers, share = l.padded ? std::ceil(even) : even;
      const bool casts = l.zero >= 3 && is_cast(p) && r.operands->gathers_casts;
      if (casts) {
        add("casts of parameters", axis, sharers, "gather", r.operands->weights.format, 1, share);
      }
      add("parameters", axis, sharers, "gather", r.compute,
          l.zero < 3 ? 1 : uses_of(p) - (casts ? 1 : 0), share);
    }
  }

  // How often a step gathers a parameter that lies in shares. The short copy of a matrix is made
  // once.
  double uses_of(const Parameter& p) const {
    const bool cast = is_cast(p);
    if (!p.name.starts_with("layers.")) {
      const bool looked_up = p.name == "embedding.weight" || p.name == "position.weight";
      const double reads = looked_up && at.pp == 0 ? lookups() : batches();
      return (cast ? 1 : 0) + (cast && !looked_up ? 0 : cast && at.pp > 0 ? 0 : reads);
    }
    if (cast) return 1;
    // Backward asks for all parameters but biases; gathering ahead includes these.
    const bool asked_again = !p.name.ends_with(".bias");
    return batches() * (forwards() + (l.recompute == 0 || asked_again ? 1 : 0));
  }

  bool is_cast(const Parameter& p) const {
    for (const Parameter& m : multiplied_as_casts(c, r)) {
      if (m.name == p.name) return true;
    }
    return false;
  }

  // The embedding stays from its first forward pass to the next backward one.
  double lookups() const {
    const auto order = schedule(l.pp, l.stages(), static_cast<int>(batches()));
    double gathered = 0;
    bool here = false;
    for (const Task& task : order[static_cast<std::size_t>(at.pp)]) {
      if (task.stage != 0) continue;
      if (!task.backward && !here) ++gathered;
      here = !task.backward && l.stages() > 1;
    }
    return gathered;
  }

  const Config& c;
  const Recipe& r;
  const Layout& l;
  Coordinates at;
  int layers = 0;
  std::vector<Travel> travels_;
};

}  // namespace

std::vector<Travel> traffic(const Config& c, const Recipe& r, const Layout& l, int rank) {
  if (c.mtp > 0) {
    throw Failure("what an extra head sends is not known yet; plan the layout without --mtp");
  }
  if (c.shared > 0 || l.overlap > 0) {
    throw Failure(
        "what a shared expert sends, and in which pieces overlap sends, is not known yet; plan the "
        "layout without them");
  }
  if (key_copies(c, l) > 1) {
    throw Failure(
        "what is sent where ranks have copies of a key head is not known yet; plan the layout with "
        "a tp of at most --kv-heads");
  }
  if (c.adapter > 0 || c.idle_layers > 0 || c.last_fewer > 0 || l.runs > 1 || l.split ||
      l.whole_experts) {
    throw Failure(
        "what is sent with adapters, idle layers, a shorter micro-batch, several runs of the "
        "schedule, split inputs or whole experts is not known yet; plan the layout without "
        "--adapter, --idle-layers, --last-fewer, runs, split and etp1");
  }
  if (r.operands && !(r.operands->all_of_weights() && r.operands->wgrad)) {
    throw Failure(
        "what is sent where only some products take short copies is not known yet; plan the layout "
        "with a recipe in which all do");
  }
  return Sender(c, r, l, rank).all();
}

Holdings holdings(const Config& c, const Recipe& r, const Layout& l, int rank) {
  Holdings all;
  for (const Parameter& p : parameters(c)) {
    if (!holds(c, l, coordinates(l, rank), stages_of(l, c), p)) continue;
    const double size = static_cast<double>(p.rows) * p.cols;
    const double slice = p.sharding == Sharding::whole ? size : size / l.tp;
    const int sharers = l.sharers_of(p.expert >= 0);
    all.parameters += l.zero >= 3 ? slice / sharers : slice;
    all.gradients += l.zero >= 2 ? slice / sharers : slice;
    const double kept = l.zero >= 1 ? slice / sharers : slice;
    all.masters += r.masters ? kept : 0;
    all.moments += 2 * kept;
  }
  return all;
}

}  // namespace plumb::model
