#include "model/plan.hpp"

namespace plumb {
namespace {

using Ids = std::vector<std::string>;

class Promise {
 public:
  Promise(const Config& config, const Recipe& recipe, const Layout& layout, int step)
      : c_(config), r_(recipe), l_(layout), step_(step) {}

  Graph made() {
    weight_operands();
    for (int m = 0; m < c_.micro_batches; ++m) {
      m_ = "m" + std::to_string(m) + "/";
      forward();
      backward();
    }
    reduce();
    optimize();
    return std::move(graph_);
  }

 private:
  // --- evaluations -------------------------------------------------------------------------------
  Evaluation plain() const { return {1, fp32, r_.compute}; }
  // A contraction that tensor-parallel ranks share; its parts travel in the recipe's wire format.
  Evaluation across_tp() const {
    return l_.tp == 1 ? plain() : Evaluation{l_.tp, r_.wire, r_.compute};
  }
  // Sums over tokens for a replicated parameter: sequence-parallel ranks each hold a slice.
  Evaluation over_tokens() const { return {l_.sp ? l_.tp : 1, fp32, fp32}; }
  Evaluation over_vocabulary() const { return {l_.tp, fp32, fp32}; }
  Evaluation over_dp() const { return {l_.dp, fp32, fp32}; }
  static Evaluation in_fp32() { return {1, fp32, fp32}; }

  void node(std::string op, Ids inputs, Ids outputs, Evaluation how, Attributes attributes = {}) {
    graph_.nodes.push_back(
        {std::move(op), std::move(inputs), std::move(outputs), std::move(attributes), how, phase_});
  }

  // --- names -------------------------------------------------------------------------------------
  std::string at(const std::string& module, const std::string& kind) const {
    return m_ + module + "/" + kind;
  }
  static std::string weight(const std::string& module) { return module + ".weight/param@previous"; }
  static std::string bias(const std::string& module) { return module + ".bias/param@previous"; }
  bool gpt() const { return c_.family == Family::gpt; }
  std::string head() const { return gpt() ? "embedding" : "head"; }
  // What a product sees of a weight.
  std::string factor(const std::string& module) const {
    return r_.operands ? module + ".weight/operand" : weight(module);
  }
  // What the backward products see of the input of a layer.
  std::string kept(const std::string& module, const std::string& x) const {
    return r_.operands ? at(module, "operand") : x;
  }

  Attributes heads() const {
    return {{"heads", c_.heads},
            {"kv_heads", c_.kv_heads},
            {"head_dim", c_.head_dim()},
            {"sequence", c_.sequence}};
  }
  Attributes rope(int inverse) const {
    Attributes attributes = heads();
    attributes["base"] = c_.rope_base;
    attributes["inverse"] = inverse;
    return attributes;
  }

  // --- operands of products ----------------------------------------------------------------------
  // Returns the id of what a product sees of x: x itself, or, under the name `as`, what `to` keeps
  // of it.
  std::string operand(const std::string& x, const std::string& as,
                      const std::optional<Format>& to) {
    if (!to) return x;
    node("amax_scale", {x}, {as + "_scale"}, in_fp32(), {{"largest", to->largest()}});
    node("quantize", {x, as + "_scale"}, {as}, {1, fp32, *to});
    return as;
  }

  // Once a step: all micro-batches multiply the same.
  void weight_operands() {
    phase_ = Phase::forward;
    for (const Parameter& p : multiplied(c_)) {
      operand(p.name + "/param@previous", p.name + "/operand", r_.operands);
    }
  }

  // --- modules: forward --------------------------------------------------------------------------
  void linear(const std::string& name, const std::string& x, Evaluation how) {
    Ids inputs{operand(x, at(name, "operand"), r_.operands), factor(name)};
    if (gpt()) inputs.push_back(bias(name));
    node("gemm", inputs, {at(name, "out")}, how, {{"transpose_a", 0}, {"transpose_b", 0}});
  }

  void norm(const std::string& name, const std::string& x) {
    Ids inputs{x, weight(name)};
    if (gpt()) inputs.push_back(bias(name));
    node(gpt() ? "layernorm" : "rmsnorm", inputs, {at(name, "out")}, plain(), {{"eps", c_.eps}});
  }

  // What layer l reads from the residual stream.
  std::string stream(int l) const {
    return l == 0 ? at("embedding", "out") : at(layer(l - 1) + ".mlp.add", "out");
  }
  static std::string layer(int l) { return "layers." + std::to_string(l); }

  void forward() {
    phase_ = Phase::forward;
    Ids lookup{at("data", "ids"), weight("embedding")};
    if (gpt()) lookup.push_back(weight("position"));
    node("embedding", lookup, {at("embedding", "out")}, plain());
    for (int l = 0; l < c_.layers; ++l) forward_layer(layer(l), stream(l));
    norm("final_norm", stream(c_.layers));
    node("gemm",
         {operand(at("final_norm", "out"), at("head", "operand"), r_.operands), factor(head())},
         {at("head", "out")}, plain(), {{"transpose_a", 0}, {"transpose_b", 1}});
    node("cross_entropy",
         {at("head", "out"), at("data", "labels"), at("data", "mask"), "data/count"},
         {at("loss", "lse"), at("loss", "out")}, over_vocabulary());
  }

  void forward_layer(const std::string& name, const std::string& x) {
    norm(name + ".norm1", x);
    linear(name + ".attn.qkv", at(name + ".norm1", "out"), plain());
    std::string qkv = at(name + ".attn.qkv", "out");
    if (!gpt()) {
      node("rope", {qkv}, {at(name + ".attn.rope", "out")}, plain(), rope(0));
      qkv = at(name + ".attn.rope", "out");
    }
    node("attention", {qkv}, {at(name + ".attn.core", "out")}, plain(), heads());
    linear(name + ".attn.proj", at(name + ".attn.core", "out"), across_tp());
    const std::string middle = at(name + ".attn.add", "out");
    node("add", {x, at(name + ".attn.proj", "out")}, {middle}, plain());
    norm(name + ".norm2", middle);
    linear(name + ".mlp.fc1", at(name + ".norm2", "out"), plain());
    node(gpt() ? "gelu" : "swiglu", {at(name + ".mlp.fc1", "out")}, {at(name + ".mlp.act", "out")},
         plain());
    linear(name + ".mlp.fc2", at(name + ".mlp.act", "out"), across_tp());
    node("add", {middle, at(name + ".mlp.fc2", "out")}, {at(name + ".mlp.add", "out")}, plain());
  }

  // --- modules: backward -------------------------------------------------------------------------
  // dx = dy W', dW = x' dy, db = sum dy. Column-parallel: dx is shared; row-parallel: db is, if the
  // tokens of dy are sliced.
  void linear_grad(const std::string& name, const std::string& x, const std::string& dy,
                   bool column_parallel) {
    const std::string d = operand(dy, at(name, "grad_operand"), r_.grad_operands);
    node("gemm", {d, factor(name)}, {at(name, "grad_in")}, column_parallel ? across_tp() : plain(),
         {{"transpose_a", 0}, {"transpose_b", 1}});
    node("gemm", {kept(name, x), d}, {at(name + ".weight", "wgrad")}, in_fp32(),
         {{"transpose_a", 1}, {"transpose_b", 0}});
    if (gpt()) {
      node("column_sum", {dy}, {at(name + ".bias", "wgrad")},
           column_parallel ? in_fp32() : over_tokens());
    }
  }

  void norm_grad(const std::string& name, const std::string& x, const std::string& dy) {
    const std::string op = gpt() ? "layernorm" : "rmsnorm";
    node(op + "_grad", {x, weight(name), dy}, {at(name, "grad_in")}, plain(), {{"eps", c_.eps}});
    Ids outputs{at(name + ".weight", "wgrad")};
    if (gpt()) outputs.push_back(at(name + ".bias", "wgrad"));
    node(op + "_wgrad", {x, weight(name), dy}, outputs, over_tokens(), {{"eps", c_.eps}});
  }

  void backward() {
    phase_ = Phase::backward;
    const std::string d_logits = at("head", "grad_out");
    node("cross_entropy_grad",
         {at("head", "out"), at("data", "labels"), at("data", "mask"), "data/count",
          at("loss", "lse")},
         {d_logits}, plain());
    const std::string d = operand(d_logits, at("head", "grad_operand"), r_.grad_operands);
    node("gemm", {d, factor(head())}, {at("head", "grad_in")}, across_tp(),
         {{"transpose_a", 0}, {"transpose_b", 0}});
    node("gemm", {d, kept("head", at("final_norm", "out"))}, {at("head.weight", "wgrad")},
         in_fp32(), {{"transpose_a", 1}, {"transpose_b", 0}});
    norm_grad("final_norm", stream(c_.layers), at("head", "grad_in"));
    std::string dx = at("final_norm", "grad_in");
    for (int l = c_.layers - 1; l >= 0; --l) dx = backward_layer(layer(l), stream(l), dx);
    node("embedding_grad", {at("data", "ids"), dx}, {at("embedding.weight", "wgrad")}, in_fp32(),
         {{"rows", c_.vocabulary}, {"period", 0}});
    if (gpt()) {
      node("embedding_grad", {at("data", "ids"), dx}, {at("position.weight", "wgrad")},
           over_tokens(), {{"rows", c_.sequence}, {"period", c_.sequence}});
    }
  }

  // Returns the id of the gradient of the layer's input.
  std::string backward_layer(const std::string& name, const std::string& x, const std::string& dy) {
    linear_grad(name + ".mlp.fc2", at(name + ".mlp.act", "out"), dy, false);
    node(gpt() ? "gelu_grad" : "swiglu_grad",
         {at(name + ".mlp.fc1", "out"), at(name + ".mlp.fc2", "grad_in")},
         {at(name + ".mlp.act", "grad_in")}, plain());
    linear_grad(name + ".mlp.fc1", at(name + ".norm2", "out"), at(name + ".mlp.act", "grad_in"),
                true);
    const std::string middle = at(name + ".attn.add", "out");
    norm_grad(name + ".norm2", middle, at(name + ".mlp.fc1", "grad_in"));
    const std::string d_middle = at(name + ".attn.add", "grad_out");
    node("add", {dy, at(name + ".norm2", "grad_in")}, {d_middle}, plain());

    linear_grad(name + ".attn.proj", at(name + ".attn.core", "out"), d_middle, false);
    const std::string qkv = at(name + (gpt() ? ".attn.qkv" : ".attn.rope"), "out");
    node("attention_grad", {qkv, at(name + ".attn.proj", "grad_in")},
         {at(name + ".attn.core", "grad_in")}, plain(), heads());
    std::string d_qkv = at(name + ".attn.core", "grad_in");
    if (!gpt()) {
      node("rope", {d_qkv}, {at(name + ".attn.rope", "grad_in")}, plain(), rope(1));
      d_qkv = at(name + ".attn.rope", "grad_in");
    }
    linear_grad(name + ".attn.qkv", at(name + ".norm1", "out"), d_qkv, true);
    norm_grad(name + ".norm1", x, at(name + ".attn.qkv", "grad_in"));
    const std::string dx = at(name + ".add", "grad_out");
    node("add", {d_middle, at(name + ".norm1", "grad_in")}, {dx}, plain());
    return dx;
  }

  // --- after the last micro-batch ----------------------------------------------------------------
  void reduce() {
    phase_ = Phase::reduce;
    Ids losses;
    for (int m = 0; m < c_.micro_batches; ++m)
      losses.push_back("m" + std::to_string(m) + "/loss/out");
    node("sum", losses, {"loss/out"}, over_dp(), {{"together", 1}});
    for (const Parameter& p : parameters(c_)) {
      // A tied weight collects two gradients from each micro-batch: as head, then as embedding.
      const bool tied = gpt() && p.name == "embedding.weight";
      Ids parts;
      for (int m = 0; m < c_.micro_batches; ++m) {
        const std::string prefix = "m" + std::to_string(m) + "/";
        if (tied) parts.push_back(prefix + "head.weight/wgrad");
        parts.push_back(prefix + p.name + "/wgrad");
      }
      node("sum", parts, {p.name + "/main_grad"}, over_dp(), {{"together", tied ? 2 : 1}});
    }
    Ids all;
    for (const Parameter& p : parameters(c_)) all.push_back(p.name + "/main_grad");
    node("grad_norm", all, {"clip/grad_norm"}, in_fp32());
  }

  void optimize() {
    phase_ = Phase::optimizer;
    node("clip", {"clip/grad_norm"}, {"clip/coefficient"}, in_fp32(), {{"max_norm", c_.max_norm}});
    const Attributes adam{{"lr", c_.rate},
                          {"beta1", c_.beta1},
                          {"beta2", c_.beta2},
                          {"eps", c_.adam_eps},
                          {"step", step_}};
    for (const Parameter& p : parameters(c_)) {
      const std::string& n = p.name;
      node("scale", {n + "/main_grad", "clip/coefficient"}, {n + "/clipped_grad"}, in_fp32());
      node("adam",
           {n + "/master@previous", n + "/exp_avg@previous", n + "/exp_avg_sq@previous",
            n + "/clipped_grad"},
           {n + "/exp_avg", n + "/exp_avg_sq", n + "/master", n + "/param"}, plain(), adam);
    }
  }

  const Config& c_;
  const Recipe& r_;
  const Layout& l_;
  int step_;
  std::string m_;
  Phase phase_ = Phase::forward;
  Graph graph_;
};

}  // namespace

Graph plan(const Config& config, const Recipe& recipe, const Layout& layout, int step) {
  check_layout(layout, config);
  return Promise(config, recipe, layout, step).made();
}

}  // namespace plumb
