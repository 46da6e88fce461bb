// How often is a healthy run accused? Cells of seeds: weights (random, those of the second to fifth
// step, in which all tokens are still alike, trained), sizes, families, recipes and layouts; the
// same twins judged at four levels, by the shipped check: in how many runs something stands out at
// its first look, and how many both looks accuse, which each cell's level is held against.
#include <fmt/format.h>
#include <fmt/ranges.h>

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
constexpr std::array level_names{"0.5", "0.1", "0.01", "0.001"};
constexpr int runs_per_row = 50;
constexpr int rows_per_cell = 4;

struct Size {
  const char* name;
  int layers, width, heads, hidden, sequence;
};
constexpr std::array sizes{Size{"tiny", 2, 32, 4, 64, 16}, Size{"small", 3, 48, 4, 96, 32},
                           Size{"middle", 4, 64, 8, 128, 32}, Size{"16-layers", 16, 32, 4, 64, 16},
                           Size{"32-layers", 32, 32, 4, 64, 16}};
constexpr const char* full = "full";  // the configuration that commands have by default

// A cell is one of each list: all products are asked.
struct Cells {
  const char* weights;
  std::vector<const char*> sizes, recipes, layouts;
};
const std::vector<Cells>& all_cells() {
  static const std::vector<Cells> cells{
      {"random",
       {"tiny", "small", "middle"},
       {"bf16", "fp8-current", "fp8-block"},
       {"tp2", "cp2", "tp4"}},
      {"random", {"16-layers", "32-layers"}, {"bf16", "fp8-block"}, {"tp2"}},
      {"random", {"middle"}, {"fp32", "fp16", "mxfp8"}, {"tp2"}},
      {"early", {full}, {"bf16", "fp8-current"}, {"tp2", "tp4"}},
      {"trained", {full}, {"bf16", "fp8-current", "fp8-block"}, {"dp2,tp2,sp"}},
      // Nearly all of it is equal bit by bit: hardly anything can be accused.
      {"random", {"tiny"}, {"bf16"}, {"dp2"}},
  };
  return cells;
}

struct Alarms {
  std::array<int, levels.size()> runs{}, by_both_looks{};
  int undecided = 0, findings_of_structure = 0;
  std::vector<double> smallest_scale;  // at 0.01
};

Config config_of_run(const std::string& family, const std::string& size, std::uint64_t seed) {
  Config c = config_of(family);
  c.seed = seed;
  const auto known = std::ranges::find(sizes, size, &Size::name);
  if (known == sizes.end()) return c;
  c.layers = known->layers;
  c.width = known->width;
  c.heads = known->heads;
  c.kv_heads = family == "gpt" ? c.heads : c.heads / 2;
  c.hidden = known->hidden;
  c.sequence = known->sequence;
  return c;
}

// By the shipped check, at every level.
void judge_run(const Start& start, Alarms& alarms) {
  const ExecutedReference reference(start);
  const Candidate candidate = run_candidate(start);
  CheckOptions options;
  options.seed = start.run.config.seed;
  options.false_alarm = levels.front();
  options.other_levels = {levels.begin() + 1, levels.end()};
  const Judged seen =
      judge_runs(reference.to_judge(), candidate.trace, merge_verified(candidate.trace), options);
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const Verdict& v = seen.verdicts[i];
    alarms.runs[i] += v.findings.empty() && !v.looked_again ? 0 : 1;
    alarms.by_both_looks[i] += v.findings.empty() ? 0 : 1;
    if (levels[i] != 0.01) continue;
    alarms.smallest_scale.push_back(v.smallest_scale);
    alarms.undecided += v.undecided.empty() ? 0 : 1;
    const auto of_structure = [](const Finding& f) { return f.statistic == "structure"; };
    alarms.findings_of_structure += std::ranges::any_of(v.findings, of_structure) ? 1 : 0;
  }
}

void one_row(Table& rows, const Effort& effort, const std::vector<std::string>& key, int part) {
  const std::string &weights = key[0], &size = key[1], &family = key[2];
  const Recipe recipe = find_recipe(key[3]);
  const Layout layout = parse_layout(key[4]);
  Alarms alarms;
  for (int i = 0; i < runs_per_row; ++i) {
    const int run = part * runs_per_row + i;
    const Config config = config_of_run(family, size, static_cast<std::uint64_t>(run + 1));
    Start start = weights == "trained" ? effort.trained(recipe, layout, config)
                                       : start_of(config, recipe, layout, default_text());
    if (weights == "early") {
      start = trained(std::move(start), default_text(), 2 + i % 4, [](int, double) {});
    }
    judge_run(start, alarms);
  }
  std::vector<std::string> row = key;
  row.push_back(std::to_string(runs_per_row));
  for (const auto& of : {alarms.runs, alarms.by_both_looks}) {
    for (const int n : of) row.push_back(std::to_string(n));
  }
  row.push_back(std::to_string(alarms.undecided));
  row.push_back(std::to_string(alarms.findings_of_structure));
  std::ranges::sort(alarms.smallest_scale);
  row.push_back(cell(alarms.smallest_scale[alarms.smallest_scale.size() / 2]));
  rows.add(row);
  effort.progress(fmt::format("{}: accused at {}: {} of {}", fmt::join(key, " "),
                              fmt::join(level_names, "/"), fmt::join(alarms.by_both_looks, "/"),
                              runs_per_row));
}

// Has every head of keys a rank?
bool fits(const Layout& layout, const Config& config) { return config.kv_heads % layout.tp == 0; }

void run(Table& rows, const Effort& effort) {
  for (int part = 0; part < rows_per_cell * effort.scale; ++part) {
    for (const Cells& cells : all_cells()) {
      for (const char* size : cells.sizes) {
        for (const char* family : {"gpt", "llama"}) {
          for (const char* recipe : cells.recipes) {
            for (const char* layout : cells.layouts) {
              if (!fits(parse_layout(layout), config_of_run(family, size, 1))) continue;
              const std::vector<std::string> key{cells.weights, size,   family,
                                                 recipe,        layout, std::to_string(part)};
              if (effort.out_of_time()) return;
              if (!rows.settled(key)) one_row(rows, effort, key, part);
            }
          }
        }
      }
    }
  }
}

// The most alarms that a rate as high as the level still brings in 99 of 100 samples.
std::size_t most_of(std::size_t runs, double level) {
  std::size_t most = 0;
  while (most < runs && binomial_tail(most + 1, runs, level) > 0.01) ++most;
  return most;
}

// Alarms of each cell at each level.
Table rates(const Table& rows) {
  Table out({"weights", "size", "family", "recipe", "layout", "level", "alarms", "by_both", "runs",
             "most", "held"},
            6);
  struct Counted {
    std::size_t runs = 0;
    std::array<std::size_t, levels.size()> alarms{}, by_both{};
  };
  std::map<std::vector<std::string>, Counted> counts;  // by cell
  for (const Table::Row& row : rows.rows()) {
    Counted& of_cell = counts[{row.begin(), row.begin() + 5}];
    const auto number = [&](const std::string& column) {
      return std::stoul(row[rows.column(column)]);
    };
    of_cell.runs += number("runs");
    for (std::size_t i = 0; i < levels.size(); ++i) {
      of_cell.alarms[i] += number(std::string("alarms_at_") + level_names[i]);
      of_cell.by_both[i] += number(std::string("by_both_at_") + level_names[i]);
    }
  }
  for (const auto& [key, count] : counts) {
    for (std::size_t i = 0; i < levels.size(); ++i) {
      const std::size_t most = most_of(count.runs, levels[i]);
      std::vector<std::string> row = key;
      row.insert(row.end(), {level_names[i], std::to_string(count.alarms[i]),
                             std::to_string(count.by_both[i]), std::to_string(count.runs),
                             std::to_string(most), count.by_both[i] <= most ? "yes" : "no"});
      out.add(row);
    }
  }
  return out;
}

}  // namespace

extern const Experiment false_alarms{
    .name = "false-alarms",
    .question = "How often is a healthy run accused at levels from 0.5 to 0.001?",
    .columns = {"weights", "size", "family", "recipe", "layout", "part", "runs", "alarms_at_0.5",
                "alarms_at_0.1", "alarms_at_0.01", "alarms_at_0.001", "by_both_at_0.5",
                "by_both_at_0.1", "by_both_at_0.01", "by_both_at_0.001", "runs_with_undecided",
                "runs_with_structure", "median_smallest_scale"},
    .keys = 6,
    .run = run,
    .rates = rates,
};

}  // namespace plumb::experiments
