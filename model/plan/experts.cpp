#include "model/plan/parts.hpp"

namespace plumb::model {
namespace {

Attributes experts_of(const Promise& p) { return {{"experts", p.c.experts}}; }

// Coefficients of the router's losses: means over tokens, micro-batches and copies of each expert.
Attributes losses_of(const Promise& p) {
  const double tokens = p.c.tokens(p.micro_batch);
  return {{"balance",
           p.c.balance_loss * p.c.experts / (p.c.top_k * tokens * tokens * p.c.micro_batches)},
          {"z", p.c.z_loss / (tokens * p.c.micro_batches)}};
}

// The experts that take each token's copies.                                            // (T, k)
std::string copies_of(const Promise& p, const std::string& mlp) {
  return p.at(mlp + ".router", p.c.capacity > 0 ? "kept" : "routing");
}

// Logits (T, E), their probabilities, and the experts of each token (T, k), all in FP32.
void router(Promise& p, const std::string& name, const std::string& x) {
  const auto at = [&](const char* kind) { return p.at(name, kind); };
  p.node("gemm", {x, Promise::weight(name)}, {at("out")}, Promise::in_fp32(),
         {{"transpose_a", 0}, {"transpose_b", 0}});
  Ids rated{at("out")};
  if (p.c.balance_bias > 0) rated.push_back(name + "/bias@previous");
  p.node("router", rated, {at("probabilities"), at("margin"), at("lse")}, Promise::in_fp32(),
         {{"k", p.c.top_k}});
  p.node("top_k", rated, {at("routing")}, Promise::in_fp32(), {{"k", p.c.top_k}});
  if (p.c.capacity > 0) {
    p.node("within_capacity", {at("routing")}, {at("kept")}, Promise::in_fp32(),
           {{"experts", p.c.experts}, {"most", p.c.most_copies(p.micro_batch)}});
  }
  p.node("expert_count", {at("routing")}, {at("count")}, Promise::in_fp32(), experts_of(p));
  p.node("balance_loss", {at("probabilities"), at("count")}, {at("balance_loss")}, p.over_tokens(),
         losses_of(p));
  p.node("z_loss", {at("lse")}, {at("z_loss")}, p.over_tokens(), losses_of(p));
}

std::string router_grad(Promise& p, const std::string& name, const std::string& x) {
  const auto at = [&](const char* kind) { return p.at(name, kind); };
  const std::string d = at("grad_out");
  Ids inputs{at("probabilities"), at("probabilities_grad"), at("count"), at("lse")};
  if (p.r.loss_scaling) inputs.push_back("loss_scale/scale@previous");
  p.node("router_grad", inputs, {d}, Promise::in_fp32(), losses_of(p));
  p.node("gemm", {d, Promise::weight(name)}, {at("grad_in")}, p.plain(),
         {{"transpose_a", 0}, {"transpose_b", 1}});
  p.node("gemm", {x, d}, {p.at(name + ".weight", "wgrad")}, p.over_tokens(),
         {{"transpose_a", 1}, {"transpose_b", 0}});
  return at("grad_in");
}

// The same layer of all experts, `fc1` or `fc2` of `mlp`; rows by expert.
struct Grouped {
  const std::string& mlp;
  const char* which;
  Sharding sharding;

  std::string name() const { return mlp + ".experts." + which; }
  std::string of(int e) const { return expert_name(mlp, e) + "." + which; }
};

// The slices of rows that are copies: how ranks share their columns, if the layer's products sum
// over these.
SlicedAxis rows_of(const Promise& p, const std::string& mlp, int columns) {
  if (p.l.whole_experts) columns = 0;
  return {columns > 0 ? Sharding::columns : Sharding::whole, columns, false, copies_of(p, mlp)};
}

// Y_e = X_e W_e + b_e                                     (T k, F) = (T k, C) (C, F) + (F)
std::string grouped(Promise& p, const Grouped& layer, const std::string& x) {
  const bool rows = layer.sharding == Sharding::rows;
  Ids inputs{
      input_operand(p, layer.name(), x, rows_of(p, layer.mlp, rows ? p.c.hidden : 0)).by_columns,
      copies_of(p, layer.mlp)};
  for (int e = 0; e < p.c.experts; ++e)
    inputs.push_back(seen_weight(p, layer.of(e), Product::fprop));
  for (int e = 0; p.gpt() && e < p.c.experts; ++e) inputs.push_back(Promise::bias(layer.of(e)));
  const std::string y = p.at(layer.name(), "out");
  p.node("grouped_gemm", inputs, {y}, rows ? p.across_slices_of_experts() : p.plain(),
         summed(p, layer.name(), Product::fprop, {{"experts", p.c.experts}, {"transpose_b", 0}}));
  return y;
}

std::string grouped_grad(Promise& p, const Grouped& layer, const std::string& x,
                         const std::string& dy) {
  const bool columns = layer.sharding == Sharding::columns;
  const std::string routing = copies_of(p, layer.mlp);
  const SeenAs d = gradient_operand(p, layer.name(), dy,
                                    rows_of(p, layer.mlp, columns ? p.c.fc1_width(p.c.hidden) : 0));
  const std::string dx = p.at(layer.name(), "grad_in");
  Ids inputs{d.by_columns, routing}, weights, biases;
  for (int e = 0; e < p.c.experts; ++e) {
    inputs.push_back(seen_weight(p, layer.of(e), Product::dgrad));
    weights.push_back(p.at(layer.of(e) + ".weight", "wgrad"));
    biases.push_back(p.at(layer.of(e) + ".bias", "wgrad"));
  }
  p.node("grouped_gemm", inputs, {dx}, columns ? p.across_slices_of_experts() : p.plain(),
         summed(p, layer.name(), Product::dgrad, {{"experts", p.c.experts}, {"transpose_b", 1}}));
  p.node("grouped_wgrad", {seen_input(p, layer.name(), x).by_rows, d.by_rows, routing}, weights,
         p.over_tokens_of_experts(), summed(p, layer.name(), Product::wgrad, experts_of(p)));
  if (p.gpt()) {
    p.node("grouped_column_sum", {dy, routing}, biases, p.over_tokens_of_experts(), experts_of(p));
  }
  return dx;
}

}  // namespace

// Router; copies of the tokens, by expert (T k, C); each through its expert; weighed and added up.
std::string experts(Promise& p, const std::string& name, const std::string& x) {
  router(p, name + ".router", x);
  const std::string routing = copies_of(p, name);
  const std::string rows = p.at(name + ".dispatch", "out"), y = p.at(name + ".combine", "out");
  p.node("dispatch", {x, routing}, {rows}, p.plain(), experts_of(p));
  const std::string fc1 = grouped(p, {name, "fc1", Sharding::columns}, rows);
  const std::string fc2 =
      grouped(p, {name, "fc2", Sharding::rows}, activation(p, name + ".experts.act", fc1));
  p.node("combine", {fc2, p.at(name + ".router", "probabilities"), routing}, {y}, p.plain());
  if (p.c.shared == 0) return y;
  return add(p, y, mlp(p, name + ".shared", x), p.at(name + ".sum", "out"));
}

std::string experts_grad(Promise& p, const std::string& name, const std::string& x,
                         const std::string& dy) {
  const std::string of_router = name + ".router", of_experts = name + ".experts";
  const std::string routing = copies_of(p, name);
  const std::string d_rows = p.at(name + ".combine", "grad_in");
  const std::string d_x = p.at(name + ".dispatch", "grad_in");
  p.node("combine_grad", {dy, p.at(of_router, "probabilities"), routing}, {d_rows}, p.plain());
  p.node("combine_weight_grad", {dy, p.at(of_experts + ".fc2", "out"), routing},
         {p.at(of_router, "probabilities_grad")}, Promise::in_fp32(), experts_of(p));
  const std::string d_act =
      grouped_grad(p, {name, "fc2", Sharding::rows}, p.at(of_experts + ".act", "out"), d_rows);
  const std::string d_fc1 =
      activation_grad(p, of_experts + ".act", p.at(of_experts + ".fc1", "out"), d_act);
  const std::string d_copies =
      grouped_grad(p, {name, "fc1", Sharding::columns}, p.at(name + ".dispatch", "out"), d_fc1);
  p.node("dispatch_grad", {d_copies, routing}, {d_x}, p.plain(), experts_of(p));
  const std::string sum =
      add(p, d_x, router_grad(p, of_router, x), p.at(name + ".dispatch.add", "grad_out"));
  if (p.c.shared == 0) return sum;
  return add(p, sum, mlp_grad(p, name + ".shared", x, dy), p.at(name + ".sum", "grad_in"));
}

}  // namespace plumb::model
