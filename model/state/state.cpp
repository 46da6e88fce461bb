#include "model/state/state.hpp"

#include <algorithm>
#include <cmath>

#include "number/outcome.hpp"
#include "number/philox.hpp"
#include "number/rounding.hpp"

namespace plumb::model {
namespace {

std::shared_ptr<const Tensor> shared(Tensor tensor) {
  return std::make_shared<const Tensor>(std::move(tensor));
}

Tensor drawn(const Parameter& p, std::uint64_t seed) {
  Tensor tensor(static_cast<std::size_t>(p.rows), static_cast<std::size_t>(p.cols));
  const std::uint64_t key = key_of(seed, p.name);
  for (std::size_t e = 0; e < tensor.size(); ++e) {
    tensor.values[e] = static_cast<float>(p.mean + p.deviation * normal(key, e));
  }
  return tensor;
}

// The token of a byte: bytes spread over the vocabulary, so that plain text, which uses the lower
// half only, exercises every vocabulary slice. 149 is odd, so this is a permutation of 0..255.
float token_of(char byte) {
  return static_cast<float>(static_cast<unsigned char>(byte) * 149 % 256);
}

// A document of a sequence: where it begins there, and in the text.
struct Document {
  std::size_t begins, from;
};

// The documents of sequence s of a micro-batch, by where they begin in it.
std::vector<Document> documents_of(const Config& c, std::size_t s, std::size_t text,
                                   std::uint64_t key) {
  const auto drawn = [&](std::size_t number, std::size_t below) {
    return static_cast<std::size_t>(uniform(key, number) * static_cast<double>(below));
  };
  const auto length = static_cast<std::size_t>(c.sequence);
  std::vector<Document> all{{0, drawn(2 * s, text - length - 1)}};
  for (int d = 1; d < c.documents; ++d) {
    // 128 numbers for each sequence, after two for each.
    const std::size_t number = 2 * static_cast<std::size_t>(c.sequences) + 128 * s + 2 * d;
    all.push_back({1 + drawn(number, length - 1), drawn(number + 1, text - length - 1)});
  }
  std::ranges::sort(all, {}, &Document::begins);
  return all;
}

}  // namespace

std::vector<StateEntry> state_entries(const Config& config, const Recipe& recipe) {
  std::vector<StateEntry> all;
  for (const Parameter& p : parameters(config)) {
    all.push_back({p.name + "/param", p.rows, p.cols, recipe.compute, p.name, true});
    if (is_frozen(config, p.name)) continue;
    if (recipe.masters) all.push_back({p.name + "/master", p.rows, p.cols, fp32, p.name, true});
    all.push_back({p.name + "/exp_avg", p.rows, p.cols, recipe.moments, p.name, true});
    all.push_back({p.name + "/exp_avg_sq", p.rows, p.cols, recipe.moments, p.name, true});
  }
  if (recipe.loss_scaling) {
    all.push_back({"loss_scale/scale", 1, 1, fp32, "", false});
    all.push_back({"loss_scale/growth", 1, 1, fp32, "", false});
  }
  for (const auto& [id, cast, weight] : delayed_operands(config, recipe)) {
    all.push_back({id + "_history", cast->history, 1, fp32, weight, false});
  }
  for (int n = 0; n < config.blocks() && config.experts > 0 && config.balance_bias > 0; ++n) {
    const std::string router = "layers." + std::to_string(n) + ".mlp.router";
    all.push_back({router + "/bias", config.experts, 1, fp32, router + ".weight", false});
  }
  return all;
}

Values initial_state(const Config& config, const Recipe& recipe) {
  Values state;
  for (const Parameter& p : parameters(config)) {
    state[p.name + "/master@previous"] = shared(drawn(p, config.seed));
  }
  cast_state(config, recipe, state);
  return state;
}

Values step_data(const Config& config, std::string_view text, int step) {
  const auto length = static_cast<std::size_t>(config.sequence);
  if (text.size() < length + 2) {
    throw Failure("the text has " + std::to_string(text.size()) + " bytes, a sequence needs " +
                  std::to_string(length + 2) + "; give a longer one with --data FILE");
  }
  Values data;
  float count = 0, count_after = 0;
  for (int m = 0; m < config.micro_batches; ++m) {
    const std::string prefix = "m" + std::to_string(m) + "/data/";
    const std::uint64_t key = key_of(config.seed + 7919 * static_cast<std::uint64_t>(step), prefix);
    const auto tokens = static_cast<std::size_t>(config.tokens(m));
    Tensor ids(tokens, 1), labels(tokens, 1), mask(tokens, 1), positions(tokens, 1);
    Tensor labels_after(tokens, 1), mask_after(tokens, 1);
    for (std::size_t s = 0; s < tokens / length; ++s) {
      const std::vector<Document> documents = documents_of(config, s, text.size(), key);
      const auto counted =
          static_cast<std::size_t>(static_cast<double>(length) * (1 + uniform(key, 2 * s + 1)) / 2);
      for (std::size_t t = 0, d = 0; t < length; ++t) {
        while (d + 1 < documents.size() && documents[d + 1].begins <= t) ++d;
        const std::size_t position = t - documents[d].begins, at = documents[d].from + position;
        ids.values[s * length + t] = token_of(text[at]);
        labels.values[s * length + t] = token_of(text[at + 1]);
        mask.values[s * length + t] = t < counted ? 1.0F : 0.0F;
        labels_after.values[s * length + t] = token_of(text[at + 2]);
        mask_after.values[s * length + t] = t + 1 < counted ? 1.0F : 0.0F;
        positions.values[s * length + t] = static_cast<float>(position);
      }
      count += static_cast<float>(counted);
      count_after += static_cast<float>(counted - 1);
    }
    if (config.documents > 0) data[prefix + "positions"] = shared(std::move(positions));
    data[prefix + "ids"] = shared(std::move(ids));
    data[prefix + "labels"] = shared(std::move(labels));
    data[prefix + "mask"] = shared(std::move(mask));
    if (config.mtp == 0) continue;
    data[prefix + "mtp_labels"] = shared(std::move(labels_after));
    data[prefix + "mtp_mask"] = shared(std::move(mask_after));
  }
  data["data/count"] = shared(Tensor(1, 1, count));
  if (config.mtp > 0) data["data/mtp_count"] = shared(Tensor(1, 1, count_after));
  return data;
}

Values next_state(const Config& config, const Recipe& recipe, const Values& step) {
  Values state;
  for (const StateEntry& k : state_entries(config, recipe)) {
    const auto found = step.find(k.id);
    const auto rows = static_cast<std::size_t>(k.rows), cols = static_cast<std::size_t>(k.cols);
    if (found == step.end() || found->second->rows != rows || found->second->cols != cols) {
      throw Failure("there is no '" + k.id + "' of " + trace::size_of(rows, cols) +
                    " to go on from; load a trace of a whole step");
    }
    state[k.id + "@previous"] = found->second;
  }
  return state;
}

namespace {

// Returns the first value of an entry that a state lacks.
Tensor beginning(const StateEntry& k, const Values& earlier) {
  if (k.id.ends_with("/param") || k.id.ends_with("/master")) {
    const auto master = earlier.find(k.parameter + "/master@previous");
    return master != earlier.end() ? *master->second : *earlier.at(k.parameter + "/param@previous");
  }
  const float fill = k.id == "loss_scale/scale" ? 65536 : 0;
  return Tensor(static_cast<std::size_t>(k.rows), static_cast<std::size_t>(k.cols), fill);
}

}  // namespace

void cast_state(const Config& config, const Recipe& recipe, Values& state) {
  Values cast;
  for (const StateEntry& k : state_entries(config, recipe)) {
    const std::string id = k.id + "@previous";
    const auto found = state.find(id);
    const bool made_anew = found == state.end() || k.id.ends_with("/param") ||
                           found->second->rows != static_cast<std::size_t>(k.rows);  // a history
    Tensor tensor = made_anew ? beginning(k, state) : *found->second;
    round_in_place(tensor.values, k.format);
    cast[id] = shared(std::move(tensor));
  }
  state = std::move(cast);
}

}  // namespace plumb::model
