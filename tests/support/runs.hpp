// tests/support/runs.hpp: small runs of the mini Transformer that many tests share.
#pragma once

#include <sstream>
#include <string>

#include "model/plan/plan.hpp"
#include "model/state/state.hpp"
#include "model/step/train_step.hpp"
#include "tests/support/rooms.hpp"

namespace plumb {

// Two layers, 32 wide, 4 heads: a step takes milliseconds. Behind the family may stand settings, 1
// where no number is given: "llama+sinks+dropout=0.2".
inline Training small_run(const std::string& model, const std::string& recipe,
                          const std::string& layout = "dp1,tp1", std::uint64_t seed = 1) {
  std::istringstream words(model);
  std::string family;
  std::getline(words, family, '+');
  Config config = config_of(family);
  for (std::string choice; std::getline(words, choice, '+');) {
    for (const Size& size : sizes()) {
      const std::size_t end = choice.find('=');
      if (size.name != choice.substr(0, end)) continue;
      const std::string text = end == choice.npos ? "1" : choice.substr(end + 1);
      config.*size.field = setting_from(size, text).value();
    }
  }
  config.layers = 2;
  config.width = 32;
  config.heads = 4;
  config.kv_heads = config.family == Family::gpt ? 4 : 2;
  config.hidden = config.experts > 0 ? 32 : 64;
  config.shared = family == "llama-moe" ? 16 : 0;
  config.sequence = 16;
  config.sequences = 2;
  config.micro_batches = 4;
  config.seed = seed;
  return {config, find_recipe(recipe), parse_layout(layout), 1};
}

// A text of letters and spaces, long enough for any small run.
inline std::string small_text() {
  std::string text;
  for (unsigned i = 0, x = 1; i < 4000; ++i) {
    x = x * 1664525 + 1013904223;
    text += static_cast<char>((x >> 24) % 6 == 0 ? ' ' : 'a' + (x >> 16) % 26);
  }
  return text;
}

inline Values leaves_of_run(const Training& run) {
  Values leaves = initial_state(run.config, run.recipe);
  leaves.merge(step_data(run.config, small_text(), run.step));
  return leaves;
}

}  // namespace plumb
