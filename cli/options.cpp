#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "bounds/outcome.hpp"
#include "cli/verbs.hpp"
#include "model/data/text.hpp"
#include "model/verify.hpp"
#include "trace/report/report.hpp"
#include "trace/store/store.hpp"

namespace plumb {

void ModelOptions::add_to(CLI::App& verb) {
  verb.add_option("--family", family, "gpt or llama")->capture_default_str();
  verb.add_option("--recipe", recipe, "fp32, bf16, bf16-wire32")->capture_default_str();
  verb.add_option("--layout", layout, "e.g. dp2,tp2,sp");
  verb.add_option("--data", data, "train on this text instead of the default one");
  verb.add_option("--load", load, "start from the state of this trace (its model wins)");
  verb.add_option("--seed", seed, "of weights and data")->capture_default_str();
  verb.add_option("--layers", layers, "layers (4)");
  verb.add_option("--width", width, "width of the residual stream (128)");
  verb.add_option("--heads", heads, "attention heads (8)");
  verb.add_option("--kv-heads", kv_heads, "key/value heads (gpt 8, llama 4)");
  verb.add_option("--hidden", hidden, "units of the MLP (gpt 512, llama 384)");
  verb.add_option("--sequence", sequence, "tokens of a sequence (64)");
  verb.add_option("--sequences", sequences, "sequences of a micro-batch (4)");
  verb.add_option("--micro-batches", micro_batches, "micro-batches of a step (2)");
}

Config ModelOptions::config() const {
  Config c = config_of(family);
  c.seed = seed;
  const auto take = [](int given, int& field) {
    if (given != 0) field = given;
  };
  take(layers, c.layers);
  take(width, c.width);
  take(heads, c.heads);
  if (heads != 0 && c.family == Family::gpt) c.kv_heads = heads;
  take(kv_heads, c.kv_heads);
  take(hidden, c.hidden);
  take(sequence, c.sequence);
  take(sequences, c.sequences);
  take(micro_batches, c.micro_batches);
  return config_from(settings_of(c));  // refuses sizes that make no model
}

Start ModelOptions::start(const std::string& layout_if_none,
                          const std::string& recipe_if_none) const {
  const std::string where = layout.empty() ? layout_if_none : layout;
  const std::string how = recipe_given || recipe_if_none.empty() ? recipe : recipe_if_none;
  const std::string text = text_from(data);
  if (load.empty()) return start_of(config(), find_recipe(how), parse_layout(where), text);
  const Loaded earlier = plumb::load(load);
  return start_of(config(), find_recipe(how), parse_layout(where), text, &earlier.trace);
}

void CheckCommand::add_to(CLI::App& verb) {
  verb.add_option("--rule", rules,
                  "comma-separated: twins, replay, perturbation, depth-law, flat, assert-close "
                  "(default twins,replay)");
  verb.add_option("--false-alarm", options.false_alarm,
                  "chance of any false alarm in a healthy run")
      ->capture_default_str()
      ->check(CLI::Range(1e-12, 1.0));
  verb.add_option("--twins", options.twins, "further executions of the promise")
      ->capture_default_str()
      ->check(CLI::Range(2, 64));
  verb.add_option("--margin", options.margin, "of rule perturbation")->capture_default_str();
  verb.add_option("--perturbed", perturbed, "trace of a perturbed reference");
  verb.add_option("--only", options.only, "judge only ids that match this regular expression");
  verb.add_option("--skip", options.skip, "do not judge ids that match");
  verb.add_option("--allow-unmatched", options.allow_unmatched, "ids that one trace may lack");
  verb.add_option("--report", reports, "write a report: .txt, .md or .jsonl");
  verb.add_flag("--json", json, "print JSON lines instead of text");
}

CheckOptions CheckCommand::ready(Trace& second) const {
  CheckOptions ready = options;
  if (!rules.empty()) {
    ready.rules.clear();
    std::istringstream parts(rules);
    for (std::string rule; std::getline(parts, rule, ',');) ready.rules.push_back(rule);
  }
  if (!perturbed.empty()) {
    second = load(perturbed).trace;
    ready.perturbed = &second;
  }
  ready.progress = talk;
  return ready;
}

Verdict CheckCommand::compare(const std::string& reference, const std::string& candidate) const {
  const Loaded r = load(reference), c = load(candidate);
  Trace second;
  const Verdict verdict = check(r.trace, r.merged, c.trace, c.merged, ready(second));
  talk("");
  return verdict;
}

int CheckCommand::told(const Verdict& verdict) const {
  for (const std::string& file : reports) write_report(verdict, file);
  const std::string text = json ? json_lines(verdict) : text_report(verdict);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return verdict.exit_code();
}

std::string text_from(const std::string& file) {
  if (file.empty()) return std::string(default_text());
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Failure("cannot read the text " + file + "; name a file that exists");
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

void talk(const std::string& what) {
  using Clock = std::chrono::steady_clock;
  static Clock::time_point last = Clock::now();
  if (isatty(2) != 0) {
    std::fprintf(stderr, "\r\033[K%s", what.c_str());
    if (what.empty()) std::fflush(stderr);
    return;
  }
  if (what.empty() || Clock::now() - last < std::chrono::seconds(10)) return;
  last = Clock::now();
  std::fprintf(stderr, "%s\n", what.c_str());
}

Loaded load(const std::string& folder) {
  Loaded loaded{read_trace(folder), {}};
  loaded.merged = merge(loaded.trace);
  verify(loaded.trace, loaded.merged);
  return loaded;
}

}  // namespace plumb
