#include "model/plan/parts.hpp"

namespace plumb::model {
namespace {

// Through a latent: q = x W, kv = norm(x W_down) W_up; and the key part of all heads, x W_shared.
std::string from_latent(Promise& p, const std::string& name, const std::string& x) {
  const std::string attn = name + ".attn",
                    q = linear(p, name + p.c.queries(), x, Sharding::columns);
  const std::string latent =
      norm(p, attn + ".kv_norm", linear(p, attn + ".kv_down", x, Sharding::whole));
  Ids parts{q, linear(p, attn + ".kv_up", latent, Sharding::columns)};
  if (p.c.shared_key > 0) parts.push_back(linear(p, attn + ".shared_key", x, Sharding::whole));
  const std::string packed = p.at(attn + ".qkv", "out");
  p.node("pack_heads", parts, {packed}, p.plain(), head_counts(p));
  return packed;
}

// Gradient of x: from the queries, and then from the other two.
std::string from_latent_grad(Promise& p, const std::string& name, const std::string& x,
                             const std::string& dy) {
  const std::string attn = name + ".attn", down = attn + ".kv_down", up = attn + ".kv_up",
                    key = attn + ".shared_key", queries = name + p.c.queries();
  Attributes packing = head_counts(p);
  packing["shared"] = p.c.shared_key;
  const std::string dq = p.at(queries, "grad_out"), d_kv = p.at(up, "grad_out");
  p.node("split_heads", {dy}, {dq, d_kv}, p.plain(), packing);
  const std::string d_stream = linear_grad(p, queries, x, dq, Sharding::columns);
  const std::string d_normed =
      linear_grad(p, up, p.at(attn + ".kv_norm", "out"), d_kv, Sharding::columns);
  const std::string d_latent = norm_grad(p, attn + ".kv_norm", p.at(down, "out"), d_normed);
  const std::string d_down = linear_grad(p, down, x, d_latent, Sharding::whole);
  const std::string dx = add(p, d_stream, d_down, p.at(down + ".add", "grad_out"));
  if (p.c.shared_key == 0) return dx;
  const std::string d_key = p.at(key, "grad_out");
  p.node("shared_key_grad", {dy}, {d_key}, p.across_tp(), packing);
  const std::string d_shared = linear_grad(p, key, x, d_key, Sharding::whole);
  return add(p, dx, d_shared, p.at(key + ".add", "grad_out"));
}

}  // namespace

Attributes head_counts(const Promise& p) {
  return {{"heads", p.c.heads}, {"kv_heads", p.c.kv_heads}, {"head_dim", p.c.head_dim()}};
}

// (T, (heads + 2 kv_heads) d), packed: from the stream by one product, or through a latent
std::string qkv(Promise& p, const std::string& name, const std::string& x) {
  if (p.c.latent > 0) return from_latent(p, name, x);
  return adapted(p, name + p.c.queries(), x, Sharding::columns);
}

std::string qkv_grad(Promise& p, const std::string& name, const std::string& dy) {
  const std::string x = p.at(name + ".norm1", "out");
  if (p.c.latent > 0) return from_latent_grad(p, name, x, dy);
  return adapted_grad(p, name + p.c.queries(), x, dy, Sharding::columns);
}

}  // namespace plumb::model
