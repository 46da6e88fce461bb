// What a model has to learn, parameter by parameter: declared in config.hpp.
#include "model/spec/config.hpp"

#include <algorithm>
#include <cmath>

#include "number/outcome.hpp"

namespace plumb::model {

int layer_of(const std::string& parameter) {
  return parameter.starts_with("layers.") ? std::stoi(parameter.substr(7)) : -1;
}

std::string expert_name(const std::string& mlp, int e) {
  return mlp + ".experts." + std::to_string(e);
}

std::vector<Parameter> parameters(const Config& c) {
  const bool gpt = c.family == Family::gpt;
  const double spread = 0.02;
  // Residual branches start smaller, so that the depth does not set the scale (as GPT-2 does).
  const double residual = spread / std::sqrt(2.0 * c.layers);
  std::vector<Parameter> all;
  const auto norm_of = [&](int width, const std::string& name) {
    all.push_back({name + ".weight", width, 1, Sharding::whole, 1, spread});
    if (gpt) all.push_back({name + ".bias", width, 1, Sharding::whole, 0, spread});
  };
  const auto norm = [&](const std::string& name) { norm_of(c.width, name); };
  const auto linear = [&](const std::string& name, int in, int out, Sharding how, double s) {
    all.push_back({name + ".weight", in, out, how, 0, s});
    const Sharding of_bias = how == Sharding::columns ? Sharding::rows : Sharding::whole;
    if (has_bias(c, name)) all.push_back({name + ".bias", out, 1, of_bias, 0, spread});
  };
  // A product in a layer, and its adapter: sliced as the product is.
  const auto adapted = [&](const std::string& name, int in, int out, Sharding how, double s) {
    linear(name, in, out, how, s);
    if (c.adapter == 0) return;
    const bool columns = how == Sharding::columns;
    linear(name + ".adapter_down", in, c.adapter, columns ? Sharding::whole : how, spread);
    linear(name + ".adapter_up", c.adapter, out, columns ? how : Sharding::whole, spread);
  };
  const auto mlp = [&](const std::string& name, int hidden) {
    adapted(name + ".fc1", c.width, c.fc1_width(hidden), Sharding::columns, spread);
    adapted(name + ".fc2", hidden, c.width, Sharding::rows, residual);
  };
  const auto qkv = [&](const std::string& layer) {
    const int first = c.latent > 0 ? c.width : c.qkv_width();
    adapted(layer + c.queries(), c.width, first, Sharding::columns, spread);
    if (c.latent == 0) return;
    linear(layer + ".attn.kv_down", c.width, c.latent, Sharding::whole, spread);
    norm_of(c.latent, layer + ".attn.kv_norm");
    linear(layer + ".attn.kv_up", c.latent, c.kv_up_width(), Sharding::columns, spread);
    if (c.shared_key == 0) return;
    linear(layer + ".attn.shared_key", c.width, c.shared_key, Sharding::whole, spread);
  };
  all.push_back({"embedding.weight", c.vocabulary(), c.width, Sharding::rows, 0, spread});
  if (gpt) all.push_back({"position.weight", c.sequence, c.width, Sharding::whole, 0, spread});
  const auto block = [&](int l) {
    const std::string layer = "layers." + std::to_string(l);
    norm(layer + ".norm1");
    qkv(layer);
    for (const char* of_heads : {".attn.q_norm", ".attn.k_norm"}) {
      if (c.qk_norm == 0) break;
      all.push_back({layer + of_heads + ".weight", c.head_dim(), 1, Sharding::whole, 1, spread});
    }
    if (c.sinks > 0) {
      all.push_back({layer + ".attn.sinks", c.heads, 1, Sharding::rows, 0, spread});
    }
    adapted(layer + ".attn.proj", c.width, c.width, Sharding::rows, residual);
    norm(layer + ".norm2");
    if (c.experts == 0) return mlp(layer + ".mlp", c.hidden);
    all.push_back({layer + ".mlp.router.weight", c.width, c.experts, Sharding::whole, 0, spread});
    for (int e = 0; e < c.experts; ++e) {
      const std::size_t before = all.size();
      mlp(expert_name(layer + ".mlp", e), c.hidden);
      for (std::size_t i = before; i < all.size(); ++i) all[i].expert = e;
    }
    if (c.shared > 0) mlp(layer + ".mlp.shared", c.shared);
  };
  for (int l = 0; l < c.layers; ++l) block(l);
  norm("final_norm");
  if (c.mtp > 0) {
    norm("mtp.norm_hidden");
    norm("mtp.norm_embedding");
    linear("mtp.proj_hidden", c.width, c.width, Sharding::whole, spread);
    linear("mtp.proj_embedding", c.width, c.width, Sharding::whole, spread);
    block(c.layers);
    norm("mtp.final_norm");
  }
  if (!c.tied()) all.push_back({"head.weight", c.vocabulary(), c.width, Sharding::rows, 0, spread});
  return all;
}

Parameter parameter_of(const Config& config, const std::string& name) {
  for (Parameter& p : parameters(config)) {
    if (p.name == name) return std::move(p);
  }
  throw Failure("the model has no parameter '" + name + "'");
}

bool has_bias(const Config& c, const std::string& module) {
  return c.family == Family::gpt && module.find(".adapter_") == module.npos;
}

bool is_idle(const Config& c, int layer, int step) {
  if (c.idle_layers == 0 || layer < 0 || layer >= c.layers) return false;
  const long long first = 1LL * (step - 1) * c.idle_layers % c.layers;
  return (layer - first + c.layers) % c.layers < c.idle_layers;
}

bool is_frozen(const Config& c, const std::string& parameter) {
  return c.adapter > 0 && parameter.find(".adapter_") == parameter.npos;
}

std::vector<Parameter> trained(const Config& c, int step) {
  std::vector<Parameter> all = parameters(c);
  std::erase_if(all, [&](const Parameter& p) {
    return is_frozen(c, p.name) || is_idle(c, layer_of(p.name), step);
  });
  return all;
}

// Weights of norms are vectors; so are biases and sinks, which are called otherwise.
bool decays(const Parameter& p) {
  return p.name.ends_with(".weight") && p.name.find("norm") == p.name.npos;
}

std::vector<Parameter> multiplied(const Config& config) {
  std::vector<Parameter> factors;
  for (Parameter& p : parameters(config)) {
    const bool looked_up =
        p.name == "position.weight" || (p.name == "embedding.weight" && !config.tied());
    if (!decays(p) || looked_up || p.name.ends_with(".router.weight")) continue;
    factors.push_back(std::move(p));
  }
  return factors;
}

}  // namespace plumb::model
