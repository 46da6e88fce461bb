#include "model/plan/parts.hpp"
#include "model/spec/ownership.hpp"
#include "model/state/rounding_key.hpp"

namespace plumb::model {
namespace {

// The attributes of attention itself, with its inputs beside qkv.
Attributes core(const Promise& p, const std::string& name) {
  Attributes attributes = head_counts(p);
  attributes["sequence"] = p.c.sequence;
  if (p.c.sinks > 0) attributes["sinks"] = 1;
  if (p.c.documents > 0) attributes["documents"] = 1;
  if (p.c.attention_dropout > 0) {
    const std::string id = "m" + std::to_string(p.micro_batch) + "/" + name + ".attn.core";
    attributes["rate"] = fraction(p.c.attention_dropout);
    attributes["mask"] = static_cast<double>(dropout_key(p.c, p.step, id));
  }
  return attributes;
}

Ids head_norm_inputs(const Promise& p, const std::string& name) {
  return {p.output_of(name + ".attn.qkv"), Promise::weight(name + ".attn.q_norm"),
          Promise::weight(name + ".attn.k_norm")};
}

Attributes head_norm_attributes(const Promise& p) {
  Attributes attributes = head_counts(p);
  attributes["eps"] = p.c.eps;
  return attributes;
}

// RMSNorm of each query and key head                      (T, F); two weights (d)
std::string head_norm(Promise& p, const std::string& name) {
  const std::string y = p.at(name + ".attn.qk_norm", "out");
  p.node("head_norm", head_norm_inputs(p, name), {y}, p.plain(), head_norm_attributes(p));
  return y;
}

std::string head_norm_grad(Promise& p, const std::string& name, const std::string& dy) {
  Ids inputs = head_norm_inputs(p, name);
  inputs.push_back(dy);
  const std::string dx = p.at(name + ".attn.qk_norm", "grad_in");
  p.node("head_norm_grad", inputs, {dx}, p.plain(), head_norm_attributes(p));
  p.node("head_norm_wgrad", inputs,
         {p.at(name + ".attn.q_norm.weight", "wgrad"), p.at(name + ".attn.k_norm.weight", "wgrad")},
         p.over_heads(), head_norm_attributes(p));
  return dx;
}

// The id that attention takes.
std::string last_of_qkv(const Promise& p, const std::string& name) {
  if (p.gpt() && p.c.qk_norm == 0) return p.output_of(name + ".attn.qkv");
  return p.at(name + (p.gpt() ? ".attn.qk_norm" : ".attn.rope"), "out");
}

// The evaluation of sums over keys. Where ranks have copies of a key each has some of its query heads. In a ring keys and values come in turns, forward and backward.
// Where they are gathered each rank has gradients of all of them.
Evaluation over_keys(const Promise& p, bool backward) {
  Evaluation how = p.plain();
  if (backward) how.parts = how.tokens.groups = key_copies(p.c, p.l);
  if (p.l.cp == 1) return how;
  const bool ring = p.l.context == Context::ring;
  if (!ring && (!backward || p.l.context != Context::allgather)) return how;
  how.parts = p.l.cp;
  how.tokens = p.over_contexts().tokens;
  how.tokens.ring = ring;
  return how;
}

std::string sinks(const std::string& name) { return name + ".attn.sinks"; }

std::string rope(Promise& p, const std::string& x, const std::string& as, int inverse) {
  Attributes attributes = head_counts(p);
  attributes["sequence"] = p.c.sequence;
  if (p.c.shared_key > 0) attributes["rotated"] = p.c.shared_key;
  attributes["base"] = p.c.rope_base;
  if (p.c.rope_stretch > 0) attributes["stretch"] = p.c.rope_stretch;
  attributes["inverse"] = inverse;
  Ids inputs{x};
  if (p.c.documents > 0) inputs.push_back(p.at("data", "positions"));
  p.node("rope", inputs, {as}, p.plain(), attributes);
  return as;
}

}  // namespace

// qkv (T, (heads + 2 kv_heads) d), normed where that is chosen, rotated under llama; core (T, C);
// proj (T, C). Each token's gradients of the sinks of its heads (T, heads) are summed over tokens.
std::string attention(Promise& p, const std::string& name, const std::string& x) {
  std::string seen = qkv(p, name, x);
  if (p.c.qk_norm > 0) seen = head_norm(p, name);
  if (!p.gpt()) seen = rope(p, seen, p.at(name + ".attn.rope", "out"), 0);
  Ids inputs{seen};
  if (p.c.sinks > 0) inputs.push_back(sinks(name) + "/param@previous");
  const std::string o = p.at(name + ".attn.core", "out");
  if (p.c.documents > 0) inputs.push_back(p.at("data", "positions"));
  p.node("attention", inputs, {o}, over_keys(p, false), core(p, name));
  return adapted(p, name + ".attn.proj", o, Sharding::rows);
}

std::string attention_grad(Promise& p, const std::string& name, const std::string& dy) {
  const std::string d_core =
      adapted_grad(p, name + ".attn.proj", p.at(name + ".attn.core", "out"), dy, Sharding::rows);
  std::string d_qkv = p.at(name + ".attn.core", "grad_in");
  Ids inputs{last_of_qkv(p, name), d_core}, outputs{d_qkv};
  if (p.c.sinks > 0) {
    inputs.push_back(sinks(name) + "/param@previous");
    outputs.push_back(p.at(sinks(name), "grad_out"));
  }
  if (p.c.documents > 0) inputs.push_back(p.at("data", "positions"));
  p.node("attention_grad", inputs, outputs, over_keys(p, true), core(p, name));
  if (p.c.sinks > 0) {
    p.node("column_sum", {outputs.back()}, {p.at(sinks(name), "wgrad")}, p.over_contexts());
  }
  if (!p.gpt()) d_qkv = rope(p, d_qkv, p.at(name + ".attn.rope", "grad_in"), 1);
  if (p.c.qk_norm > 0) d_qkv = head_norm_grad(p, name, d_qkv);
  return qkv_grad(p, name, d_qkv);
}

}  // namespace plumb::model
