#include "model/config.hpp"

#include <cmath>

#include "bounds/outcome.hpp"

namespace plumb {
namespace {

int integer(const std::map<std::string, std::string>& settings, const std::string& key) {
  const auto found = settings.find(key);
  if (found == settings.end()) {
    throw Failure("the trace does not say its '" + key + "'; trace again with this program");
  }
  try {
    const int value = std::stoi(found->second);
    if (value >= 1 && value <= 1 << 20) return value;
  } catch (const std::exception&) {
  }
  throw Failure("the trace says " + key + " = '" + found->second +
                "', expected a whole number from 1 to 1048576");
}

void check(const Config& c) {
  const auto no = [](const std::string& what) {
    throw Failure(what + "; choose sizes that divide");
  };
  if (c.width % c.heads != 0) no("the heads do not divide the width");
  if (c.heads % c.kv_heads != 0) no("the key/value heads do not divide the heads");
  if (c.head_dim() % 2 != 0) no("the size of a head is odd");
}

}  // namespace

std::string name_of(Family family) { return family == Family::gpt ? "gpt" : "llama"; }

Config config_of(const std::string& family) {
  Config config;
  if (family == "gpt") return config;
  if (family == "llama") {
    config.family = Family::llama;
    config.kv_heads = 4;
    config.hidden = 384;
    return config;
  }
  throw Failure("unknown family '" + family + "'; known: gpt, llama");
}

std::map<std::string, std::string> settings_of(const Config& c) {
  return {{"family", name_of(c.family)},
          {"layers", std::to_string(c.layers)},
          {"width", std::to_string(c.width)},
          {"heads", std::to_string(c.heads)},
          {"kv_heads", std::to_string(c.kv_heads)},
          {"hidden", std::to_string(c.hidden)},
          {"sequence", std::to_string(c.sequence)},
          {"sequences", std::to_string(c.sequences)},
          {"micro_batches", std::to_string(c.micro_batches)},
          {"seed", std::to_string(c.seed)}};
}

Config config_from(const std::map<std::string, std::string>& settings) {
  const auto family = settings.find("family");
  if (family == settings.end()) throw Failure("the trace does not say its family; trace again");
  Config c = config_of(family->second);
  c.layers = integer(settings, "layers");
  c.width = integer(settings, "width");
  c.heads = integer(settings, "heads");
  c.kv_heads = integer(settings, "kv_heads");
  c.hidden = integer(settings, "hidden");
  c.sequence = integer(settings, "sequence");
  c.sequences = integer(settings, "sequences");
  c.micro_batches = integer(settings, "micro_batches");
  c.seed = static_cast<std::uint64_t>(integer(settings, "seed"));
  check(c);
  return c;
}

std::vector<Parameter> parameters(const Config& c) {
  const bool gpt = c.family == Family::gpt;
  const double spread = 0.02;
  // Residual branches start smaller, so that the depth does not set the scale (as GPT-2 does).
  const double residual = spread / std::sqrt(2.0 * c.layers);
  std::vector<Parameter> all;
  const auto norm = [&](const std::string& name) {
    all.push_back({name + ".weight", c.width, 1, Sharding::none, 1, spread});
    if (gpt) all.push_back({name + ".bias", c.width, 1, Sharding::none, 0, spread});
  };
  const auto linear = [&](const std::string& name, int in, int out, Sharding how, double s) {
    all.push_back({name + ".weight", in, out, how, 0, s});
    const Sharding of_bias = how == Sharding::columns ? Sharding::rows : Sharding::none;
    if (gpt) all.push_back({name + ".bias", out, 1, of_bias, 0, spread});
  };
  all.push_back({"embedding.weight", c.vocabulary, c.width, Sharding::rows, 0, spread});
  if (gpt) all.push_back({"position.weight", c.sequence, c.width, Sharding::none, 0, spread});
  for (int l = 0; l < c.layers; ++l) {
    const std::string layer = "layers." + std::to_string(l);
    norm(layer + ".norm1");
    linear(layer + ".attn.qkv", c.width, c.qkv_width(), Sharding::columns, spread);
    linear(layer + ".attn.proj", c.width, c.width, Sharding::rows, residual);
    norm(layer + ".norm2");
    linear(layer + ".mlp.fc1", c.width, c.fc1_width(), Sharding::columns, spread);
    linear(layer + ".mlp.fc2", c.hidden, c.width, Sharding::rows, residual);
  }
  norm("final_norm");
  if (!gpt) all.push_back({"head.weight", c.vocabulary, c.width, Sharding::rows, 0, spread});
  return all;
}

}  // namespace plumb
