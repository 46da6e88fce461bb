#include "model/spec/config.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "number/outcome.hpp"
#include "number/words.hpp"

namespace plumb::model {
namespace {

// A number written by std::to_string or exactly(), between the limits.
template <class T>
T number(const std::map<std::string, std::string>& settings, const std::string& key, T least,
         T most) {
  const auto found = settings.find(key);
  if (found == settings.end()) {
    throw Failure("the trace does not say its '" + key + "'; trace again with this program");
  }
  const std::string& text = found->second;
  T value{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  if (whole && value >= least && value <= most) return value;
  throw Failure("the trace says " + key + " = '" + text +
                "', which is no such number; trace again");
}

using Of = Size::Of;
using Unit = Size::Unit;
constexpr int million = 1'000'000;
constexpr Size all_sizes[] = {
    {"layers", &Config::layers, 1, 4096, Of::model, "layers (4)"},
    {"width", &Config::width, 1, 1 << 16, Of::model, "width of the residual stream (128)"},
    {"heads", &Config::heads, 1, 4096, Of::model, "attention heads (8)"},
    {"kv_heads", &Config::kv_heads, 1, 4096, Of::model, "key/value heads (gpt 8, llama 4)"},
    {"hidden", &Config::hidden, 1, 1 << 18, Of::model,
     "units of the MLP (gpt 512, llama 384; of each expert 256, 192)"},
    {"experts", &Config::experts, 2, 256, Of::experts, "experts of a layer (4; families -moe)"},
    {"top_k", &Config::top_k, 1, 255, Of::experts, "experts that take a token (2)"},
    {"capacity", &Config::capacity, 0, 100 * million, Of::experts,
     "of its equal share of tokens an expert takes so much at most, as 1.0 (no limit)",
     Unit::fraction, 100},
    {"balance_bias", &Config::balance_bias, 0, million, Of::experts,
     "each step moves a bias of choices so far towards idle experts, as 0.001 (none)",
     Unit::fraction, 1000},
    {"shared", &Config::shared, 0, 1 << 18, Of::experts,
     "units of an expert that takes every token (none)"},
    {"sinks", &Config::sinks, 0, 1, Of::model,
     "attention has learned sinks, a logit a head that takes no value", Unit::flag},
    {"mtp", &Config::mtp, 0, 1, Of::model, "one more block predicts the token after the next",
     Unit::flag},
    {"qk_norm", &Config::qk_norm, 0, 1, Of::model,
     "attention norms each query and key head, all with the same two weights", Unit::flag},
    {"latent", &Config::latent, 0, 1 << 16, Of::model,
     "width of a latent that keys and values of all heads are made from (none)"},
    {"shared_key", &Config::shared_key, 0, 1 << 16, Of::model,
     "with a latent: columns of each key that all heads share, the only ones rotated (none)"},
    {"rope_stretch", &Config::rope_stretch, 0, 1024, Of::model,
     "sequences are so many times as long as rotations were made for (none; families llama)"},
    {"adapter", &Config::adapter, 0, 1 << 16, Of::model,
     "rank of adapters beside the products of each layer; only these are trained (none)"},
    {"vocabulary_padding", &Config::vocabulary_padding, 0, 1 << 16, Of::model,
     "rows of the vocabulary that no byte names, so that tp divides it (0)"},
    {"other_head", &Config::other_head, 0, 1, Of::model,
     "the head is a matrix of its own in gpt, and the embedding in llama", Unit::flag},
    {"sequence", &Config::sequence, 1, 1 << 14, Of::model, "tokens of a sequence (64)"},
    {"sequences", &Config::sequences, 1, 4096, Of::data, "sequences of a micro-batch (4)"},
    {"documents", &Config::documents, 0, 64, Of::data,
     "documents packed into each sequence, or fewer where two begin together (1)"},
    {"micro_batches", &Config::micro_batches, 1, 4096, Of::data, "micro-batches of a step (2)"},
    {"last_fewer", &Config::last_fewer, 0, 4095, Of::data,
     "sequences that the last micro-batch has fewer (0)"},
    {"idle_layers", &Config::idle_layers, 0, 4095, Of::training,
     "layers that a step goes past, each step the next ones (0)"},
    {"dropout", &Config::dropout, 0, 99 * (million / 100), Of::training,
     "fraction dropped of what enters the residual stream, as 0.1 (0)", Unit::fraction, 100},
    {"attention_dropout", &Config::attention_dropout, 0, 99 * (million / 100), Of::training,
     "fraction dropped of attention's probabilities, as 0.1 (0)", Unit::fraction, 100},
    {"label_smoothing", &Config::label_smoothing, 0, 99 * (million / 100), Of::training,
     "fraction of the loss whose target is the whole vocabulary, as 0.1 (0)", Unit::fraction, 100},
    {"weight_decay", &Config::weight_decay, 0, million, Of::training,
     "fraction of a matrix that a step, times its rate, takes away, as 0.1 (0)", Unit::fraction,
     1000},
};

int read_size(const std::map<std::string, std::string>& settings, const Size& size) {
  const auto found = settings.find(size.name);
  if (found == settings.end()) {
    throw Failure("the trace does not say its '" + std::string(size.name) +
                  "'; trace again with this program");
  }
  if (const auto value = setting_from(size, found->second)) return *value;
  throw Failure("the trace says " + found->first + " = '" + found->second +
                "', which is no such number; trace again");
}

// A step holds far less at once than a large machine has memory for: a mistyped size should be a
// sentence, not an hour of paging.
constexpr double most_parameters = 1 << 28;
constexpr double most_tokens = 1 << 20;  // of a step

// The shortest text that reads back as the same number.
std::string exactly(double x) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, x).ptr};
}

void check(const Config& c, bool to_run) {
  const auto no = [](const std::string& what) {
    throw Failure(what + "; choose sizes that divide");
  };
  if (c.width % c.heads != 0) no("the heads do not divide the width");
  if (c.heads % c.kv_heads != 0) no("the key/value heads do not divide the heads");
  if (c.head_dim() % 2 != 0) no("the size of a head is odd");
  if (c.shared_key > 0 && c.latent == 0) {
    throw Failure("the part of a key that all heads share stands beside a latent; add --latent");
  }
  if (c.shared_key % 2 != 0 || c.shared_key >= c.head_dim()) {
    throw Failure("of a key's " + std::to_string(c.head_dim()) + " columns heads cannot share " +
                  std::to_string(c.shared_key) +
                  "; choose an even number of them, and not all, with --shared-key");
  }
  if (c.rope_stretch > 0 && c.family == Family::gpt) {
    throw Failure("gpt learns its positions and rotates nothing; leave --rope-stretch out");
  }
  if (c.rope_stretch == 1) {
    throw Failure(
        "sequences that are as long as before are not stretched; leave --rope-stretch out");
  }
  if (c.experts > 0 && c.top_k >= c.experts) {
    throw Failure(std::to_string(c.top_k) + " of " + std::to_string(c.experts) +
                  " experts leave a router no choice; choose fewer with --top-k");
  }
  if (c.adapter > 0 && (c.latent > 0 || c.experts > 0)) {
    throw Failure("adapters stand beside attention's own products and a dense MLP's; leave " +
                  std::string(c.latent > 0 ? "--latent" : "experts") + " out");
  }
  if (c.idle_layers > 0 && c.experts > 0) {
    throw Failure("routers of idle layers would have nothing to say; leave --idle-layers out");
  }
  if (c.idle_layers >= c.layers) {
    throw Failure("of " + std::to_string(c.layers) + " layers a step cannot go past " +
                  std::to_string(c.idle_layers) + "; choose fewer with --idle-layers");
  }
  if (c.last_fewer >= c.sequences) {
    throw Failure("of " + std::to_string(c.sequences) +
                  " sequences the last micro-batch cannot lack " + std::to_string(c.last_fewer) +
                  "; choose fewer with --last-fewer");
  }
  if (c.sequence < (c.mtp > 0 ? 4 : 2)) {
    throw Failure("sequences of " + std::to_string(c.sequence) +
                  " have no token whose loss counts; choose longer ones with --sequence");
  }
  if (!to_run) return;
  double count = 0;
  for (const Parameter& p : parameters(c)) count += static_cast<double>(p.rows) * p.cols;
  const double tokens = static_cast<double>(c.tokens()) * c.micro_batches;
  if (count <= most_parameters && tokens <= most_tokens) return;
  throw Failure("these sizes make " + exactly(count) + " parameters and " + exactly(tokens) +
                " tokens a step, at most " + exactly(most_parameters) + " and " +
                exactly(most_tokens) + " are possible; choose smaller ones");
}

}  // namespace

std::string name_of(Family family) { return family == Family::gpt ? "gpt" : "llama"; }

std::string family_of(const Config& config) {
  return name_of(config.family) + (config.experts > 0 ? "-moe" : "");
}

Config config_of(const std::string& family) {
  Config config;
  if (family == "llama" || family == "llama-moe") {
    config.family = Family::llama;
    config.kv_heads = 4;
    config.hidden = 384;
  }
  if (family == "gpt-moe" || family == "llama-moe") {
    config.experts = 4;
    config.hidden /= config.top_k;  // as much work for a token as the dense MLP
  }
  if (family_of(config) == family) return config;
  throw Failure(unknown("family", family, {"gpt", "llama", "gpt-moe", "llama-moe"}));
}

std::span<const Size> sizes() { return all_sizes; }

const Size& setting_named(std::string_view name) {
  const auto* found = std::ranges::find(all_sizes, name, &Size::name);
  if (found != std::end(all_sizes)) return *found;
  throw Failure("the model has no setting " + std::string(name));
}

std::string text_of(const Size& size, int value) {
  if (size.unit != Unit::fraction) return std::to_string(value);
  std::string decimals = std::to_string(million + value % million).substr(1);
  while (decimals.size() > 1 && decimals.back() == '0') decimals.pop_back();
  return std::to_string(value / million) + "." + decimals;
}

std::optional<int> setting_from(const Size& size, std::string_view text) {
  const auto whole = [](std::string_view digits) -> std::optional<std::int64_t> {
    std::uint32_t n = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) return {};
    return n;
  };
  const std::size_t point = text.find('.');
  const auto before = whole(text.substr(0, point));
  if (!before) return {};
  std::int64_t value = *before;
  if (size.unit == Unit::fraction) value *= point == text.npos ? million / size.formerly : million;
  if (point != text.npos) {
    std::string decimals(text.substr(point + 1));
    const bool fits = !decimals.empty() && decimals.size() <= 6 && size.unit == Unit::fraction;
    decimals.resize(6, '0');
    const auto after = whole(decimals);
    if (!fits || !after) return {};
    value += *after;
  }
  if (value < size.least || value > size.most) return {};
  return static_cast<int>(value);
}

std::map<std::string, std::string> settings_of(const Config& c) {
  std::map<std::string, std::string> settings{
      {"family", family_of(c)}, {"rate", exactly(c.rate)}, {"seed", std::to_string(c.seed)}};
  for (const Size& size : sizes()) {
    const bool none = size.least == 0 && c.*size.field == 0;
    if (none || (size.of == Of::experts && c.experts == 0)) continue;
    settings[size.name] = text_of(size, c.*size.field);
  }
  if (c.experts > 0) {
    settings["balance_loss"] = exactly(c.balance_loss);
    settings["z_loss"] = exactly(c.z_loss);
  }
  return settings;
}

std::map<std::string, std::string> in_present_units(std::map<std::string, std::string> settings) {
  for (const Size& size : sizes()) {
    const auto found = settings.find(size.name);
    if (found == settings.end()) continue;
    if (const auto value = setting_from(size, found->second)) found->second = text_of(size, *value);
  }
  return settings;
}

Config config_from(const std::map<std::string, std::string>& settings, bool to_run) {
  const auto family = settings.find("family");
  if (family == settings.end()) throw Failure("the trace does not say its family; trace again");
  Config c = config_of(family->second);
  const bool dense = c.experts == 0;
  for (const Size& size : sizes()) {
    const bool none = size.least == 0 && !settings.contains(size.name);
    if (none || (size.of == Of::experts && dense)) continue;
    c.*size.field = read_size(settings, size);
  }
  if (!dense) {
    c.balance_loss = number<double>(settings, "balance_loss", 0, 1e6);
    c.z_loss = number<double>(settings, "z_loss", 0, 1e6);
  }
  c.rate = number<double>(settings, "rate", 0, 1);
  c.seed = number<std::uint64_t>(settings, "seed", 0, ~std::uint64_t(0));
  check(c, to_run);
  return c;
}

}  // namespace plumb::model
