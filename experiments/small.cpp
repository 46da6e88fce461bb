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
  static std::map<std::string, Trace> known;
  const auto found = known.find(family);
  if (found != known.end()) return found->second;
  Start start = start_of(small_model(family), find_recipe("bf16"), {}, default_text());
  start = trained(std::move(start), default_text(), steps, [&](int step, double) {
    effort.progress("training a small " + family + " once: step " + std::to_string(step));
  });
  return known.emplace(family, run_reference(start)).first->second;
}

Start small_start(const Config& config, const Recipe& recipe, const Layout& layout,
                  const std::string& weights, const Effort& effort) {
  const bool is_trained = weights == "trained";
  return start_of(config, recipe, layout, default_text(),
                  is_trained ? &trained_small(family_of(config), effort) : nullptr);
}

}  // namespace plumb::experiments
