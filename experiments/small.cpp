#include "experiments/small.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "model/data/text.hpp"
#include "model/run/training.hpp"
#include "number/philox.hpp"

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
  config.kv_heads = std::min(config.kv_heads, of.kv_heads);
  return config;
}

const Trace& trained_once(const Config& config, int steps, const Effort& effort) {
  static std::map<std::string, Trace> known;
  std::string settings = std::to_string(steps) + " steps";
  for (const auto& [name, value] : settings_of(config)) settings += " " + name + "=" + value;
  const auto found = known.find(settings);
  if (found != known.end()) return found->second;
  const auto make = [&] {
    Start start = start_of(config, find_recipe("bf16"), {}, default_text());
    start = trained(std::move(start), default_text(), steps, [&](int step, double) {
      effort.progress("training a small " + family_of(config) + " once: step " +
                      std::to_string(step));
    });
    return run_reference(start);
  };
  const std::string name = fmt::format("small-{}-{:016x}", family_of(config),
                                       key_of(static_cast<std::uint64_t>(steps), settings));
  Trace state = effort.kept ? effort.kept(name, make) : make();
  Config its_own = config_from(state.manifest.settings);
  its_own.rate = config.rate;  // that of the last step
  if (settings_of(its_own) != settings_of(config)) {
    throw Failure("the state '" + name + "' is of another model; delete it");
  }
  return known.emplace(settings, std::move(state)).first->second;
}

const Trace& trained_small(const Config& of, const Effort& effort) {
  return trained_once(small_model_like(of), steps, effort);
}

Start small_start(const Config& config, const Recipe& recipe, const Layout& layout,
                  const std::string& weights, const Effort& effort) {
  const bool is_trained = weights == "trained";
  return start_of(config, recipe, layout, default_text(),
                  is_trained ? &trained_small(config, effort) : nullptr);
}

}  // namespace plumb::experiments
