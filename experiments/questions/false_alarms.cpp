// How often is a healthy run accused? Seeds, layouts, sizes, families, recipes; random weights,
// those of the second to fifth step, in which all tokens are still alike, and trained ones; the
// same twins judged at four family-wise levels. The rates of weights and recipes have intervals.
#include <algorithm>
#include <array>
#include <map>

#include "experiments/experiment.hpp"
#include "model/data/text.hpp"
#include "model/plan/verify.hpp"
#include "model/run/training.hpp"
#include "trace/levels.hpp"

namespace plumb::experiments {
namespace {

constexpr std::array levels{0.5, 0.1, 0.01, 0.001};
constexpr int runs_per_row = 50;

struct Size {
  const char* name;
  int layers, width, heads, hidden, sequence;
};
constexpr std::array sizes{Size{"tiny", 2, 32, 4, 64, 16}, Size{"small", 3, 48, 4, 96, 32},
                           Size{"middle", 4, 64, 8, 128, 32}};

struct Alarms {
  std::array<int, levels.size()> runs{};
  int undecided = 0, findings_of_structure = 0;
};

Config config_of_run(Family family, const Size& size, std::uint64_t seed) {
  Config c = config_of(name_of(family));
  c.layers = size.layers;
  c.width = size.width;
  c.heads = size.heads;
  c.kv_heads = family == Family::gpt ? size.heads : size.heads / 2;
  c.hidden = size.hidden;
  c.sequence = size.sequence;
  c.seed = seed;
  return c;
}

Config full_config(Family family, std::uint64_t seed) {
  Config c = config_of(name_of(family));
  c.seed = seed;
  return c;
}

// A tenth trained, a tenth of the first steps, both families.
std::string weights_of(int block) {
  const int kind = block % 20;
  return kind == 5 || kind == 10 ? "trained" : kind == 7 || kind == 14 ? "early" : "random";
}

// By the shipped check, at every level.
void judge_run(const Start& start, Alarms& alarms) {
  const Trace reference = run_reference(start);
  const Candidate candidate = run_candidate(start);
  CheckOptions options;
  options.seed = start.run.config.seed;
  options.false_alarm = levels.front();
  options.other_levels = {levels.begin() + 1, levels.end()};
  const Merged merged = merge_verified(reference);
  const Judgement seen =
      judge_runs({reference, merged}, candidate.trace, merge_verified(candidate.trace), options);
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const Verdict& v = seen.verdicts[i];
    alarms.runs[i] += v.findings.empty() ? 0 : 1;
    if (levels[i] != 0.01) continue;
    alarms.undecided += v.undecided.empty() ? 0 : 1;
    const auto of_structure = [](const Finding& f) { return f.statistic == "structure"; };
    alarms.findings_of_structure += std::ranges::any_of(v.findings, of_structure) ? 1 : 0;
  }
}

void run(Table& rows, const Effort& effort) {
  const std::array layouts{"tp2", "dp2", "dp2,tp2,sp", "tp4"};
  for (int block = 0; block < 200 * effort.scale; ++block) {
    const Family family = block % 2 == 0 ? Family::gpt : Family::llama;
    const std::string weights = weights_of(block);
    const bool full = weights != "random";
    const Size& size = sizes[static_cast<std::size_t>(block / 2 % 3)];
    Layout layout = parse_layout(layouts[static_cast<std::size_t>(block / 4 % 4)]);
    if (layout.tp == 4 && family == Family::llama && !full && size.heads / 2 < 4) layout.tp = 2;
    const Recipe recipe = find_recipe(block / 3 % 2 == 0 ? "bf16" : "fp8-current");
    const std::vector<std::string> key{
        std::to_string(block),     name_of(family), recipe.id, weights,
        full ? "full" : size.name, name_of(layout)};
    if (effort.out_of_time()) return;
    if (rows.settled(key)) continue;
    Alarms alarms;
    for (int i = 0; i < runs_per_row; ++i) {
      const auto seed = static_cast<std::uint64_t>(block * runs_per_row + i + 1);
      const Config config = full ? full_config(family, seed) : config_of_run(family, size, seed);
      Start start = weights == "trained" ? effort.trained(recipe, layout, config)
                                         : start_of(config, recipe, layout, default_text());
      if (weights == "early") {
        start = trained(std::move(start), default_text(), 2 + i % 4, [](int, double) {});
      }
      judge_run(start, alarms);
    }
    std::vector<std::string> row = key;
    row.push_back(std::to_string(runs_per_row));
    for (const int n : alarms.runs) row.push_back(std::to_string(n));
    row.push_back(std::to_string(alarms.undecided));
    row.push_back(std::to_string(alarms.findings_of_structure));
    rows.add(row);
    effort.progress("block " + key[0] + " " + key[1] + " " + key[2] + " " + key[3] + " " + key[4] +
                    " " + key[5] + ": alarms at .5/.1/.01/.001: " + row[7] + "/" + row[8] + "/" +
                    row[9] + "/" + row[10]);
  }
}

// Alarms of all rows with the same weights and recipe, at each level.
Table rates(const Table& rows) {
  Table out({"weights", "recipe", "level", "alarms", "runs", "low", "high"}, 3);
  const std::size_t weights = rows.column("weights"), recipe = rows.column("recipe");
  for (const char* level : {"0.5", "0.1", "0.01", "0.001"}) {
    std::map<std::pair<std::string, std::string>, std::pair<std::size_t, std::size_t>> counts;
    for (const Table::Row& row : rows.rows()) {
      auto& [alarms, runs] = counts[{row[weights], row[recipe]}];
      alarms += std::stoul(row[rows.column(std::string("alarms_at_") + level)]);
      runs += std::stoul(row[rows.column("runs")]);
    }
    for (const auto& [key, count] : counts) {
      const auto [low, high] = binomial_interval(count.first, count.second, 0.95);
      out.add({key.first, key.second, level, std::to_string(count.first),
               std::to_string(count.second), cell(low), cell(high)});
    }
  }
  return out;
}

}  // namespace

extern const Experiment false_alarms{
    .name = "false-alarms",
    .question = "How often is a healthy run accused at family-wise levels from 0.5 to 0.001?",
    .columns = {"block", "family", "recipe", "weights", "size", "layout", "runs", "alarms_at_0.5",
                "alarms_at_0.1", "alarms_at_0.01", "alarms_at_0.001", "runs_with_undecided",
                "runs_with_structure"},
    .keys = 6,
    .run = run,
    .rates = rates,
};

}  // namespace plumb::experiments
