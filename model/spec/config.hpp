// model/spec/config.hpp: the sizes and choices of the mini Transformer, without recipe and layout.
//
// TESTED   tests/model/settings_test.cpp, tests/cli/options_test.cpp
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/sees.hpp"
#include "model/spec/sharding.hpp"

namespace plumb::model {

// gpt: learned positions, LayerNorm, GELU, biases, tied head. llama: RoPE, RMSNorm, SwiGLU, grouped
// queries, own head, no biases. (other_head: the other one's head.)
enum class Family { gpt, llama };

struct Config {
  Family family = Family::gpt;
  int layers = 4;
  int width = 128;
  int heads = 8;
  int kv_heads = 8;
  int hidden = 512;  // of the MLP, or of each expert
  // A mixture of experts in place of the MLP: each token goes to the top_k that its router rates
  // highest. 0 experts: a dense MLP.
  int experts = 0;
  int top_k = 2;
  // Fraction of an equal share of a micro-batch's copies that an expert takes at most: the first in
  // the order of the tokens; the others are dropped. 0: no limit. Fractions are in millionths here:
  // exact, as in manifests; fraction() makes numbers of them.
  int capacity = 0;
  // By how much, in millionths, a step moves each expert's bias: up if the expert was chosen less
  // often than the mean, down if more. The bias is added to the logits for the choice alone. 0: no
  // bias.
  int balance_bias = 0;
  int shared = 0;  // units of one more expert, which takes every token; 0: none
  int mtp = 0;     // 1: one more block predicts the token after the next (model/layers/mtp.hpp)
  static constexpr double mtp_weight = 0.3;  // of its loss
  // Fractions, in millionths: of the numbers that go into the residual stream, by chance left out;
  // of the loss that every token of the vocabulary is a target of.
  int dropout = 0;
  int label_smoothing = 0;
  int attention_dropout =
      0;  // of attention's probabilities, by chance left out; in millionths, too
  double balance_loss = 0.01;        // weights of the router's losses: for experts of equal shares,
  double z_loss = 0.001;             // and for small logits
  static constexpr int bytes = 256;  // values of a token
  // Further rows of embedding and head, which no token names, so that tp divides all rows. They are
  // in the softmax like any other.
  int vocabulary_padding = 0;
  int other_head = 0;  // 1: gpt's head is a matrix of its own, llama's is the embedding
  int sinks = 0;       // 1: each head has a logit that joins its softmax and has no value
  int qk_norm = 0;     // 1: RMSNorm of each query and key head, of one weight each
  // Width of the latent that keys and values of all heads are made from, in place of the residual
  // stream (model/layers/qkv.hpp); 0: the stream.
  int latent = 0;
  int shared_key = 0;  // last columns of each key that all heads share; only these are rotated
  // Rank of an adapter beside each product of a layer, y = x W + (x A) B (model/layers/adapter.hpp):
  // only adapters are trained. 0: none, and everything is.
  int adapter = 0;
  int sequence = 64;
  int sequences = 4;  // per micro-batch
  // Documents packed into each sequence; a token sees its own only, and its position counts from
  // where that begins. 0: a sequence is one document.
  int documents = 0;
  int micro_batches = 2;
  int last_fewer = 0;  // sequences that the last micro-batch has fewer
  // Layers that a step goes past: step s those from (s - 1) times as many on, round all layers. What
  // they hold stays as it is.
  int idle_layers = 0;
  double eps = 1e-5;
  double rope_base = 10000;
  // How many times as long sequences are as those that the weights were made for, which YaRN makes
  // rotations for (bounds/operations/rope.cpp); 0: they are as long.
  int rope_stretch = 0;
  double max_norm = 1;  // gradients are clipped to it
  double rate = 3e-3;   // Adam
  double beta1 = 0.9;
  double beta2 = 0.95;
  double adam_eps = 1e-8;
  // Fraction of each matrix, in millionths, that the rate multiplies in every step (AdamW).
  int weight_decay = 0;
  std::uint64_t seed = 1;  // of weights and data

  // Does the head multiply with the embedding?
  bool tied() const { return (family == Family::gpt) != (other_head > 0); }
  int vocabulary() const { return bytes + vocabulary_padding; }
  int sequences_of(int m) const {
    return m + 1 == micro_batches ? sequences - last_fewer : sequences;
  }
  int tokens(int m) const { return sequence * sequences_of(m); }  // of micro-batch m
  int tokens() const { return sequence * sequences; }             // of the longest
  int blocks() const { return layers + mtp; }                     // the extra one after the others
  int head_dim() const { return width / heads; }
  int qkv_width() const { return (heads + 2 * kv_heads) * head_dim(); }
  int kv_up_width() const { return kv_heads * (2 * head_dim() - shared_key); }  // from a latent
  // The product in a layer that makes queries, and without a latent keys and values.
  std::string queries() const { return latent > 0 ? ".attn.q" : ".attn.qkv"; }
  // Copies of micro-batch m's tokens that an expert takes at most; without a limit all of them.
  int most_copies(int m) const {
    if (capacity == 0) return tokens(m);
    const std::int64_t copies = static_cast<std::int64_t>(tokens(m)) * top_k * capacity;
    const std::int64_t whole = std::int64_t(1'000'000) * experts;
    return static_cast<int>(std::min<std::int64_t>((copies + whole - 1) / whole, tokens(m)));
  }
  int fc1_width(int units) const { return family == Family::llama ? 2 * units : units; }
};

// A size that a user may choose: its name in a manifest, and its range. A manifest that lacks a
// size that may be 0 means 0.
struct Size {
  enum class Unit { count, flag, fraction };
  const char* name;
  int Config::*field;
  int least, most;
  // experts: only where the model has some; data, training: may change from step to step.
  enum class Of { model, experts, data, training } of;
  bool of_model() const { return of == Of::model || of == Of::experts; }
  const char* what;  // with the default, in words
  Unit unit = Unit::count;
  int formerly = 0;  // of a fraction: older manifests count in whole numbers of 1 / formerly
};
std::span<const Size> sizes();
// Throws Failure if there is none of that name.
const Size& setting_named(std::string_view name);

// 100'000 millionths are 0.1: the number nearest to it, as a compiler reads "0.1".
inline double fraction(int millionths) { return millionths / 1e6; }
// "4"; of fractions "0.1", "1.0", with at most six decimals.
std::string text_of(const Size& size, int value);
// Reads it. A fraction without a point is one of an older manifest: "10" per cent are 0.1. Nothing
// if it is no such number or out of range.
std::optional<int> setting_from(const Size& size, std::string_view text);

// The default model of a family: gpt, llama, gpt-moe, llama-moe. Throws Failure on an unknown name.
Config config_of(const std::string& family);
std::string name_of(Family family);
std::string family_of(const Config& config);  // what config_of takes

// Writes and reads the settings of a manifest. Throws Failure if a value is missing, not a number,
// or makes no model (heads that do not divide the width, more parameters than memory ...).
std::map<std::string, std::string> settings_of(const Config& config);
// The same settings as this version writes them: "10" per cent of dropout as "0.1". Others stay.
std::map<std::string, std::string> in_present_units(std::map<std::string, std::string> settings);
// `to_run`: refuses more parameters and tokens than a step has memory for.
Config config_from(const std::map<std::string, std::string>& settings, bool to_run = true);

struct Parameter {
  std::string name;        // canonical module path + weight or bias
  int rows, cols;          // a vector is (n, 1)
  Sharding sharding;       // of tensor-parallel ranks: whole, rows or columns
  double mean, deviation;  // of its first values
  int expert = -1;         // the expert that it belongs to; -1: none
};

// All parameters in the order of the forward pass. A tied head has no entry of its own.
std::vector<Parameter> parameters(const Config& config);
// Returns the parameter of that name. Throws Failure if there is none.
Parameter parameter_of(const Config& config, const std::string& name);
// "layers.3.attn.qkv.weight": 3; -1 outside the layers.
int layer_of(const std::string& parameter);
// Returns the module of expert e of an MLP, as parameters are named.
std::string expert_name(const std::string& mlp, int e);
// Has a module a bias beside its weight?
bool has_bias(const Config& config, const std::string& module);
// Does a step go past that layer?
bool is_idle(const Config& config, int layer, int step);
// Is a parameter, or a matrix under another name, never trained: is it beside adapters?
bool is_frozen(const Config& config, const std::string& parameter);
// Those that a step trains, in order: not frozen, of no idle layer. Others stay as they are.
std::vector<Parameter> trained(const Config& config, int step);
// Does weight decay make it smaller? Matrices; norms, biases and sinks are left alone.
bool decays(const Parameter& p);
// Returns the parameters that linear layers and the head multiply, which recipes may shorten; a
// router's weights stay as they are.
std::vector<Parameter> multiplied(const Config& config);

}  // namespace plumb::model
