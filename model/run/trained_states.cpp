#include "model/run/trained_states.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "model/data/text.hpp"
#include "model/plan/verify.hpp"
#include "model/run/training.hpp"
#include "trace/store/disk.hpp"
#include "trace/store/file_lock.hpp"
#include "trace/store/store.hpp"

namespace plumb::model {
namespace {

constexpr int training_steps = 1500;

// Is it a size of the model, and 0 by default?
bool is_choice(const Size& size) { return size.of_model() && size.least == 0; }

// So many key/value heads, where there are fewer than the family has.
int key_heads(const Config& of) { return std::min(config_of(family_of(of)).kv_heads, of.kv_heads); }

// "llama+qk_norm=1": the family and its choices.
std::string model_of(const Config& config) {
  std::string name = family_of(config);
  if (key_heads(config) < config_of(name).kv_heads) {
    name += fmt::format("+kv_heads={}", key_heads(config));
  }
  for (const Size& size : sizes()) {
    if (is_choice(size) && config.*size.field != 0) {
      name += fmt::format("+{}={}", size.name, text_of(size, config.*size.field));
    }
  }
  return name;
}

Trace trace_of(const Config& of, const std::string& model,
               const std::function<void(const std::string&)>& told) {
  Config config = config_of(family_of(of));
  for (const Size& size : sizes()) {
    if (is_choice(size)) config.*size.field = of.*size.field;
  }
  config.kv_heads = key_heads(of);
  config.sequences = 4;
  config.micro_batches = 4;
  config.seed = 7;
  Start start = start_of(config, find_recipe("bf16"), {}, default_text());
  start = trained(std::move(start), default_text(), training_steps, [&](int step, double loss) {
    told(fmt::format("training {} once: step {} of {}, loss {:.3f}", model, step, training_steps,
                     loss));
  });
  return run_reference(start);
}

// A trace from a disk is untrusted, also one of ours.
Trace checked(const std::string& folder) {
  Trace trace = read_trace(folder);
  verify(trace, merge(trace));
  return trace;
}

}  // namespace

Trace kept_state(const std::string& folder, const std::function<Trace()>& make) {
  make_folders(std::filesystem::path(folder).parent_path());
  const FileLock lock(folder + ".lock", folder, true);
  if (!std::filesystem::exists(folder)) write_trace(make(), folder);
  return checked(folder);
}

Start trained_start(const Recipe& recipe, const Layout& layout, const Config& config,
                    const std::string& cache, const std::function<void(const std::string&)>& told) {
  static std::map<std::string, Trace> known;
  const std::string model = model_of(config);
  if (!known.contains(model)) {
    known.emplace(model, kept_state(cache + "/trained-" + model,
                                    [&] { return trace_of(config, model, told); }));
  }
  return start_of(config, recipe, layout, default_text(), &known.at(model));
}

}  // namespace plumb::model
