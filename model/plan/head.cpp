#include "model/plan/parts.hpp"

namespace plumb::model {
namespace {

// The attributes of the loss: smoothing, and its weight.
Attributes loss_of(const Promise& p, const std::string& of) {
  Attributes attributes;
  if (p.c.label_smoothing > 0) attributes["smoothing"] = fraction(p.c.label_smoothing);
  if (!of.empty()) attributes["weight"] = Config::mtp_weight;
  return attributes;
}

// Labels, mask and count of the tokens that a head predicts.
Ids targets(const Promise& p, const std::string& of) {
  const std::string kind = of.empty() ? "" : "mtp_";
  return {p.at("data", kind + "labels"), p.at("data", kind + "mask"), "data/" + kind + "count"};
}

}  // namespace

// logits = h W'                                           (T, V) = (T, C) (V, C)'
// loss = sum over counted tokens of lse(logits) - logits[label], over all counted tokens of the
// step
void head_and_loss(Promise& p, const std::string& of, const std::string& h) {
  const std::string head = of + "head", loss = of + "loss";
  p.node("gemm",
         {input_operand(p, head, h, {}).by_columns, seen_weight(p, p.head(), Product::fprop)},
         {p.at(head, "out")}, p.plain(),
         summed(p, head, Product::fprop, {{"transpose_a", 0}, {"transpose_b", 1}}));
  Ids inputs = targets(p, of);
  inputs.insert(inputs.begin(), p.at(head, "out"));
  p.node("cross_entropy", inputs, {p.at(loss, "lse"), p.at(loss, "out")}, p.over_vocabulary(),
         loss_of(p, of));
}

// dh (T, C), dW (V, C)
std::string head_and_loss_grad(Promise& p, const std::string& of, const std::string& h) {
  const std::string head = of + "head", d_logits = p.at(head, "grad_out");
  Ids inputs = targets(p, of);
  inputs.insert(inputs.begin(), p.at(head, "out"));
  inputs.push_back(p.at(of + "loss", "lse"));
  if (p.r.loss_scaling) inputs.push_back("loss_scale/scale@previous");
  p.node("cross_entropy_grad", inputs, {d_logits}, p.plain(), loss_of(p, of));
  const SeenAs d = gradient_operand(p, head, d_logits, {Sharding::columns, p.c.vocabulary()});
  const std::string dh = p.at(head, "grad_in");
  p.node("gemm", {d.by_columns, seen_weight(p, p.head(), Product::dgrad)}, {dh}, p.across_tp(),
         summed(p, head, Product::dgrad, {{"transpose_a", 0}, {"transpose_b", 0}}));
  const std::string part = p.c.mtp == 0 ? "head.weight"
                           : of.empty() ? "head.loss.weight"
                                        : "head.mtp.weight";
  p.node("gemm", {d.by_rows, seen_input(p, head, h).by_rows}, {p.at(part, "wgrad")},
         p.over_contexts(),
         summed(p, head, Product::wgrad, {{"transpose_a", 1}, {"transpose_b", 0}}));
  return dh;
}

}  // namespace plumb::model
