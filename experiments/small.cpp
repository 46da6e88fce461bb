#include "experiments/small.hpp"

#include <map>

#include "model/data/text.hpp"
#include "model/run/training.hpp"

namespace plumb::experiments {
namespace {

constexpr int steps = 601;  // the step after 600

}  // namespace

Config small_model(const std::string& family) {
  Config c = config_of(family);
  c.width = 64;
  c.hidden = 128;
  c.kv_heads = c.family == Family::gpt ? 8 : 4;
  c.sequence = 32;
  c.sequences = 8;
  c.micro_batches = 4;
  return c;
}

const Trace& trained_small(const std::string& family, const Effort& effort) {
  return trained_small(small_model(family), effort);
}

Config small_model_like(const Config& of) {
  Config config = small_model(family_of(of));
  for (const Size& size : sizes()) {
    if (size.of_model() && size.least == 0) config.*size.field = of.*size.field;
  }
  return config;
}

const Trace& trained_small(const Config& of, const Effort& effort) {
  static std::map<std::map<std::string, std::string>, Trace> known;
  const Config config = small_model_like(of);
  const auto found = known.find(settings_of(config));
  if (found != known.end()) return found->second;
  Start start = start_of(config, find_recipe("bf16"), {}, default_text());
  start = trained(std::move(start), default_text(), steps, [&](int step, double) {
    effort.progress("training a small " + family_of(of) + " once: step " + std::to_string(step));
  });
  return known.emplace(settings_of(config), run_reference(start)).first->second;
}

Start small_start(const Config& config, const Recipe& recipe, const Layout& layout,
                  const std::string& weights, const Effort& effort) {
  const bool is_trained = weights == "trained";
  return start_of(config, recipe, layout, default_text(),
                  is_trained ? &trained_small(config, effort) : nullptr);
}

}  // namespace plumb::experiments
