#include "model/plan/parts.hpp"

namespace plumb {
namespace {

Attributes heads(const Promise& p) {
  return {{"heads", p.c.heads},
          {"kv_heads", p.c.kv_heads},
          {"head_dim", p.c.head_dim()},
          {"sequence", p.c.sequence}};
}

// Of attention itself, with what stands beside qkv.
Attributes core(const Promise& p) {
  Attributes attributes = heads(p);
  if (p.c.sinks > 0) attributes["sinks"] = 1;
  return attributes;
}

std::string sinks(const std::string& name) { return name + ".attn.sinks"; }

std::string rope(Promise& p, const std::string& x, const std::string& as, int inverse) {
  Attributes attributes = heads(p);
  attributes["base"] = p.c.rope_base;
  attributes["inverse"] = inverse;
  p.node("rope", {x}, {as}, p.plain(), attributes);
  return as;
}

}  // namespace

// qkv (T, (heads + 2 kv_heads) d), rotated under llama; core (T, C); proj (T, C). What each token
// gives to the sinks of the heads it has (T, heads) is summed over tokens.
std::string attention(Promise& p, const std::string& name, const std::string& x) {
  std::string qkv = linear(p, name + ".attn.qkv", x, Split::columns);
  if (!p.gpt()) qkv = rope(p, qkv, p.at(name + ".attn.rope", "out"), 0);
  Ids inputs{qkv};
  if (p.c.sinks > 0) inputs.push_back(sinks(name) + "/param@previous");
  const std::string o = p.at(name + ".attn.core", "out");
  p.node("attention", inputs, {o}, p.plain(), core(p));
  return linear(p, name + ".attn.proj", o, Split::rows);
}

std::string attention_grad(Promise& p, const std::string& name, const std::string& dy) {
  const std::string d_core =
      linear_grad(p, name + ".attn.proj", p.at(name + ".attn.core", "out"), dy, Split::rows);
  const std::string qkv = p.at(name + (p.gpt() ? ".attn.qkv" : ".attn.rope"), "out");
  std::string d_qkv = p.at(name + ".attn.core", "grad_in");
  Evaluation how = p.plain();
  if (p.l.context == Context::allgather) {  // each rank has gradients of all keys and values
    how.parts = p.l.cp;
    how.deal = p.over_contexts().deal;
  }
  Ids inputs{qkv, d_core}, outputs{d_qkv};
  if (p.c.sinks > 0) {
    inputs.push_back(sinks(name) + "/param@previous");
    outputs.push_back(p.at(sinks(name), "grad_out"));
  }
  p.node("attention_grad", inputs, outputs, how, core(p));
  if (p.c.sinks > 0) {
    p.node("column_sum", {outputs.back()}, {p.at(sinks(name), "wgrad")}, p.over_contexts());
  }
  if (!p.gpt()) d_qkv = rope(p, d_qkv, p.at(name + ".attn.rope", "grad_in"), 1);
  return linear_grad(p, name + ".attn.qkv", p.at(name + ".norm1", "out"), d_qkv, Split::columns);
}

}  // namespace plumb
