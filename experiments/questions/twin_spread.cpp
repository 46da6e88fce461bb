// How well do K twins predict how far a healthy run lies from the reference, and K noise draws how
// far the reference lies from the exact result? Per tensor: root mean square norm of the draws over
// the observed norm. Single numbers (losses, the gradient norm) are left out: one normal number is
// within a factor of 1.25 of its deviation in a fifth of all cases, whoever foretells it. Under dp
// each rank has two micro-batches, so that sums over ranks have another order. Beside it the share
// that a draw reaches against the other draws: a model without fault can do no better than that.
#include <algorithm>
#include <set>

#include "experiments/distance.hpp"
#include "experiments/experiment.hpp"
#include "model/data/text.hpp"
#include "model/plan/plan.hpp"
#include "model/plan/verify.hpp"
#include "trace/execute.hpp"
#include "trace/statistics.hpp"
#include "trace/twins.hpp"

namespace plumb::experiments {
namespace {

struct Shares {
  Foretold foretold;
  int untouched = 0, unequal = 0;
  double least = 1e300, most = 0;
  std::string least_id, most_id;
  std::set<std::string> outside;  // kinds of tensors that left [0.5, 2]

  // Norms of the draws and of the run they predict.
  void count(const std::string& id, const std::vector<double>& draws, double observed) {
    const bool silent = std::ranges::all_of(draws, [](double d) { return d == 0; });
    if (observed == 0 && silent) return;
    const double ratio = foretold.add(draws, observed);
    if (ratio < 0.5 || ratio > 2) outside.insert(kind_of(id));
    if (ratio < least) {
      least = ratio;
      least_id = id;
    }
    if (ratio > most) {
      most = ratio;
      most_id = id;
    }
  }
};

std::string joined(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : " ").append(word);
  return text.empty() ? "-" : text;
}

Shares against_twins(const Start& start, int draws) {
  const ExecutedReference reference(start);
  const Candidate candidate = run_candidate(start);
  const Merged c = merge_verified(candidate.trace);
  CheckOptions options;
  options.twins = draws;
  options.keeps_twins = true;
  const Judged judgement = judge_runs(reference.to_judge(), candidate.trace, c, options);
  const Drawn& drawn = judgement.drawn.value();
  const auto differs = touched(*reference.trace().graph, *candidate.trace.graph);
  Shares shares;
  for (const Node& node : reference.trace().graph->nodes) {
    if (!judged_by_twins(node)) continue;
    for (const std::string& id : node.outputs) {
      const Tensor& base = *drawn.reference.values.at(id);
      if (base.size() == 1) continue;
      const double observed = distance(*c.values.at(id), base).norm;
      if (!differs.contains(id)) {
        ++shares.untouched;
        shares.unequal += observed > 0 ? 1 : 0;
        continue;
      }
      std::vector<double> norms;
      for (const Values& t : drawn.twins.value()) norms.push_back(distance(*t.at(id), base).norm);
      shares.count(id, norms, observed);
    }
  }
  return shares;
}

Shares against_exact(const Start& start, int draws) {
  const Graph graph = plan(start.run.config, start.run.recipe, {}, start.run.step);
  const Extent extent{Phase::reduce};
  const Values rounded = reference(graph, start.leaves, extent);
  const ValuesOf<double> truth = exact(graph, start.leaves, extent);
  const Errors errors = rounding_errors(graph, start.leaves, extent);
  std::map<std::string, std::vector<double>> norms;
  for (int k = 1; k <= draws; ++k) {
    const ValuesOf<double> noise = noise_draw(graph, start.leaves, errors, 1, k, extent);
    for (const Node& node : graph.nodes) {
      if (!judged_by_twins(node)) continue;
      for (const std::string& id : node.outputs) {
        if (truth.at(id)->size() == 1) continue;
        norms[id].push_back(distance(*noise.at(id), *truth.at(id)).norm);
      }
    }
  }
  Shares shares;
  for (const auto& [id, of_draws] : norms) {
    shares.count(id, of_draws, distance(*rounded.at(id), *truth.at(id)).norm);
  }
  return shares;
}

struct Setting {
  Family family;
  std::string weights, recipe, layout;
  int seed;

  bool against_the_exact_run() const { return layout == "exact"; }
  Layout parsed() const { return parse_layout(against_the_exact_run() ? "dp1" : layout); }
  std::vector<std::string> key() const {
    return {name_of(family), weights, recipe,
            name_of(parsed()) + (against_the_exact_run() ? " against exact" : ""),
            std::to_string(seed)};
  }
};

Shares shares_of(const Setting& s, const Effort& effort) {
  Config config = config_of(name_of(s.family));
  config.seed = static_cast<std::uint64_t>(s.seed);
  config.micro_batches = 2 * s.parsed().dp;
  const Recipe recipe = find_recipe(s.recipe);
  const Start start = s.weights == "random" ? start_of(config, recipe, s.parsed(), default_text())
                                            : effort.trained(recipe, s.parsed(), config);
  return s.against_the_exact_run() ? against_exact(start, 8) : against_twins(start, 4);
}

void add(Table& rows, const Setting& setting, const Effort& effort) {
  const Shares s = shares_of(setting, effort);
  std::vector<std::string> row = setting.key();
  for (const std::string& cell_text :
       {std::to_string(s.foretold.tensors), cell(s.foretold.near_share()),
        cell(s.foretold.within_share()), cell(s.foretold.others_share()), cell(s.least), s.least_id,
        cell(s.most), s.most_id, std::to_string(s.untouched), std::to_string(s.unequal),
        joined(s.outside)}) {
    row.push_back(cell_text);
  }
  rows.add(row);
  effort.progress(row[0] + " " + row[1] + " " + row[2] + " " + row[3] + " seed " + row[4] + ": " +
                  row[6] + " within [0.8, 1.25]");
}

void run(Table& rows, const Effort& effort) {
  for (int seed = 1; seed <= 10 * effort.scale; ++seed) {
    for (const Family family : {Family::gpt, Family::llama}) {
      for (const char* weights : {"random", "trained"}) {
        for (const Recipe& recipe : all_recipes()) {
          const bool many = recipe.id == "bf16" || recipe.id == "fp8-current";
          if (seed > 3 * effort.scale && !many) continue;
          for (const char* layout : {"tp2", "tp4", "dp2", "dp2,tp2,sp", "exact"}) {
            if (effort.out_of_time()) return;
            const Setting setting{family, weights, recipe.id, layout, seed};
            // Noise draws know casts to nearest; where all is FP32 there is none.
            const bool casts = recipe.compute != fp32 && !recipe.stochastic_results;
            if (setting.against_the_exact_run() && !casts) continue;
            if (!setting.against_the_exact_run() &&
                !wrong_draws(recipe, parse_layout(layout), config_of(name_of(family))).empty()) {
              continue;
            }
            if (!rows.settled(setting.key())) add(rows, setting, effort);
          }
        }
      }
    }
  }
}

}  // namespace

extern const Experiment twin_spread{
    .name = "twin-spread",
    .question =
        "How well do K = 4 twins (8 noise draws against the exact run) predict the distance "
        "of a healthy run?",
    .columns = {"family", "weights", "recipe", "layout", "seed", "tensors", "share_in_0.8_1.25",
                "share_in_0.5_2", "draw_against_other_draws", "least_ratio", "least_id",
                "largest_ratio", "largest_id", "untouched", "untouched_but_unequal",
                "kinds_outside_0.5_2"},
    .keys = 5,
    .run = run,
};

}  // namespace plumb::experiments
