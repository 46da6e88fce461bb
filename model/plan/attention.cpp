#include "model/plan/parts.hpp"

namespace plumb {
namespace {

Attributes heads(const Promise& p) {
  return {{"heads", p.c.heads},
          {"kv_heads", p.c.kv_heads},
          {"head_dim", p.c.head_dim()},
          {"sequence", p.c.sequence}};
}

std::string rope(Promise& p, const std::string& x, const std::string& as, int inverse) {
  Attributes attributes = heads(p);
  attributes["base"] = p.c.rope_base;
  attributes["inverse"] = inverse;
  p.node("rope", {x}, {as}, p.plain(), attributes);
  return as;
}

}  // namespace

// qkv (T, (heads + 2 kv_heads) d), rotated under llama; core (T, C); proj (T, C)
std::string attention(Promise& p, const std::string& name, const std::string& x) {
  std::string qkv = linear(p, name + ".attn.qkv", x, Split::columns);
  if (!p.gpt()) qkv = rope(p, qkv, p.at(name + ".attn.rope", "out"), 0);
  const std::string core = p.at(name + ".attn.core", "out");
  p.node("attention", {qkv}, {core}, p.plain(), heads(p));
  return linear(p, name + ".attn.proj", core, Split::rows);
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
  p.node("attention_grad", {qkv, d_core}, {d_qkv}, how, heads(p));
  if (!p.gpt()) d_qkv = rope(p, d_qkv, p.at(name + ".attn.rope", "grad_in"), 1);
  return linear_grad(p, name + ".attn.qkv", p.at(name + ".norm1", "out"), d_qkv, Split::columns);
}

}  // namespace plumb
