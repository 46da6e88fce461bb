// How does the distance of a healthy run from its reference grow with depth, and do the paper's
// estimate, the adopter's law and twins follow it?
//
// One row is one layer of one run: relative Frobenius distances, each beside that of the reference
// with a perturbed input (rule perturbation, before its margin) and the root mean square of that of
// four twins:
//   forward    the residual stream behind the layer, all micro-batches as one vector
//   gradient   the gradient of the residual stream before the layer, likewise
//   weights    the layer's reduced weight gradients as one vector
//   dq         the gradient of attention's queries, likewise
//   worst      the largest distance of any one reduced weight gradient of the layer
// Last columns: what each rule says of the whole run.
#include <cmath>
#include <map>
#include <optional>
#include <sstream>

#include "experiments/experiment.hpp"
#include "model/data/text.hpp"
#include "model/plan/verify.hpp"
#include "model/run/training.hpp"

namespace plumb::experiments {
namespace {

constexpr int seeds = 2, of_deep = 1;  // more than 32 layers
constexpr int steps = 301;             // trained: the step after 300

Config of_depth(const std::string& family, int layers) {
  Config c = config_of(family);
  c.layers = layers;
  c.width = 64;
  c.hidden = 128;
  c.kv_heads = c.family == Family::gpt ? 8 : 4;
  c.sequence = 32;
  c.sequences = 4;
  c.micro_batches = 2;
  return c;
}

// Squared distances and sizes, added up over tensors.
struct Sum {
  double off = 0, size = 0;

  // Of the first so many columns.
  void add(const Tensor& run, const Tensor& reference, std::size_t columns) {
    for (std::size_t i = 0; i < reference.rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        const double r = static_cast<double>(reference(i, j));
        off += std::pow(static_cast<double>(run(i, j)) - r, 2);
        size += r * r;
      }
    }
  }
  double relative() const { return size > 0 ? std::sqrt(off / size) : 0; }
};

constexpr const char* quantities[] = {"forward", "gradient", "weights", "dq"};

// What a tensor counts for; nothing of the optimizer.
std::optional<std::string> quantity_of(const std::string& id) {
  if (id.ends_with(".mlp.add/out")) return "forward";
  if (id.ends_with(".add/grad_out") && !id.ends_with(".attn.add/grad_out")) return "gradient";
  if (id.ends_with("/main_grad")) return "weights";
  if (id.ends_with(".attn.core/grad_in")) return "dq";
  return {};
}

// Layer of an id, counted from 1; 0: of none.
int layer_of(const std::string& id) {
  const std::size_t at = id.find("layers.");
  return at == id.npos ? 0 : std::stoi(id.substr(at + 7)) + 1;
}

// By quantity and layer. `worst` is among them.
using Profile = std::map<std::string, std::vector<double>>;

Profile profile_of(const Values& run, const Values& reference, const Config& config) {
  const auto layers = static_cast<std::size_t>(config.layers);
  std::map<std::string, std::vector<Sum>> sums;
  Profile profile;
  profile["worst"].resize(layers);
  for (const char* quantity : quantities) sums[quantity].resize(layers);
  for (const auto& [id, tensor] : reference) {
    const std::optional<std::string> quantity = quantity_of(id);
    if (!quantity || layer_of(id) == 0) continue;
    const auto layer = static_cast<std::size_t>(layer_of(id) - 1);
    const std::size_t columns =
        *quantity == "dq" ? static_cast<std::size_t>(config.width) : tensor->cols;
    sums[*quantity][layer].add(*run.at(id), *tensor, columns);
    if (*quantity != "weights") continue;
    Sum one;
    one.add(*run.at(id), *tensor, columns);
    profile["worst"][layer] = std::max(profile["worst"][layer], one.relative());
  }
  for (const auto& [quantity, of_layers] : sums) {
    for (const Sum& sum : of_layers) profile[quantity].push_back(sum.relative());
  }
  return profile;
}

// Root mean square over the twins.
Profile profile_of(const std::vector<Values>& twins, const Values& reference,
                   const Config& config) {
  Profile squares;
  for (const Values& twin : twins) {
    for (const auto& [quantity, layers] : profile_of(twin, reference, config)) {
      squares[quantity].resize(layers.size());
      for (std::size_t l = 0; l < layers.size(); ++l) {
        squares[quantity][l] += layers[l] * layers[l] / static_cast<double>(twins.size());
      }
    }
  }
  for (auto& [quantity, layers] : squares) {
    for (double& x : layers) x = std::sqrt(x);
  }
  return squares;
}

void judge(Table& rows, const std::vector<std::string>& key, const Start& start) {
  const Config& config = start.run.config;
  const ExecutedReference alone(start);
  const Trace perturbed = run_perturbed(start, 1);
  const Merged &r = alone.merged(), p = merge_verified(perturbed);
  const Candidate candidate = run_candidate(start);
  const Merged c = merge_verified(candidate.trace);
  const Reference reference = alone.to_judge();
  CheckOptions options;
  options.rules = {"twins"};
  options.keeps_twins = true;
  options.perturbed = &perturbed;
  const Judged twins = judge_runs(reference, candidate.trace, c, options);
  std::vector<std::string> accused{twins.verdicts.front().findings.empty() ? "0" : "1"};
  for (const char* rule : {"perturbation", "depth-law"}) {
    options.rules = {rule};
    accused.push_back(
        std::to_string(check(reference, candidate.trace, c, options).findings.size()));
  }
  const Profile seen = profile_of(c.values, r.values, config),
                estimated = profile_of(p.values, r.values, config),
                foretold = profile_of(twins.drawn.value().twins.value(),
                                      twins.drawn->reference.values, config);
  std::vector<Table::Row> group;
  for (int l = 0; l < config.layers; ++l) {
    const auto at = static_cast<std::size_t>(l);
    Table::Row row = key;
    row.push_back(std::to_string(l + 1));
    for (const char* quantity : quantities) {
      for (const Profile* of : {&seen, &estimated, &foretold}) {
        row.push_back(cell(of->at(quantity)[at]));
      }
    }
    row.push_back(cell(seen.at("worst")[at]));
    row.insert(row.end(), accused.begin(), accused.end());
    group.push_back(std::move(row));
  }
  rows.add_group(group);
}

// Returns the state after 300 steps of a family in bf16; the recipes cast it.
const Trace& trained_of_depth(const std::string& family, int layers, const Effort& effort) {
  static std::map<std::pair<std::string, int>, Trace> known;
  const auto found = known.find({family, layers});
  if (found != known.end()) return found->second;
  Config config = of_depth(family, layers);
  config.micro_batches = 1;
  Start start = start_of(config, find_recipe("bf16"), {}, default_text());
  start = trained(std::move(start), default_text(), steps, [&](int step, double) {
    if (step % 10 != 0) return;
    effort.progress("training " + std::to_string(layers) + " layers of " + family + " once: step " +
                    std::to_string(step));
  });
  return known.emplace(std::pair(family, layers), run_reference(start)).first->second;
}

struct Cell {
  int layers;
  const char *recipe, *layout;
};
// Depth by recipe, all in tp2; and each axis by itself, at the depth of the adopter's test.
constexpr const char* recipes[] = {"fp32", "bf16", "fp16", "fp8-delayed"};
constexpr int depths[] = {4, 12, 24, 64, 128};
constexpr const char* axes[] = {"tp2", "dp2", "cp2", "pp2", "tp2,sp"};  // at 32 layers

std::vector<Cell> all_cells() {
  std::vector<Cell> cells;
  for (const int layers : depths) {
    for (const char* recipe : recipes) cells.push_back({layers, recipe, "tp2"});
  }
  for (const char* layout : axes) cells.push_back({32, "bf16", layout});
  return cells;
}

void run(Table& rows, const Effort& effort) {
  for (int seed = 1; seed <= seeds * effort.scale; ++seed) {
    for (const Cell& cell : all_cells()) {
      if (cell.layers > 32 && seed > of_deep * effort.scale) continue;
      for (const char* family : {"gpt", "llama"}) {
        for (const char* weights : {"random", "trained"}) {
          if (effort.out_of_time()) return;
          const std::vector<std::string> key{family,
                                             weights,
                                             cell.recipe,
                                             cell.layout,
                                             std::to_string(cell.layers),
                                             std::to_string(seed)};
          std::vector<std::string> last = key;
          last.push_back(key[4]);
          if (rows.settled(last)) continue;
          const Trace* loaded = weights == std::string("trained")
                                    ? &trained_of_depth(family, cell.layers, effort)
                                    : nullptr;
          Config config = of_depth(family, cell.layers);
          config.seed = static_cast<std::uint64_t>(seed);
          judge(rows, key,
                start_of(config, find_recipe(cell.recipe), parse_layout(cell.layout),
                         default_text(), loaded));
          effort.progress(key[0] + " " + key[1] + " " + key[2] + " " + key[3] + ", " + key[4] +
                          " layers, seed " + key[5]);
        }
      }
    }
  }
}

}  // namespace

extern const Experiment error_growth{
    .name = "error-growth",
    .question = "How does rounding grow with depth, and does each rule's tolerance follow it?",
    .columns = {"family",
                "weights",
                "recipe",
                "layout",
                "layers",
                "seed",
                "layer",
                "forward",
                "forward_estimate",
                "forward_twins",
                "gradient",
                "gradient_estimate",
                "gradient_twins",
                "weights_gradient",
                "weights_estimate",
                "weights_twins",
                "dq",
                "dq_estimate",
                "dq_twins",
                "worst_weight",
                "twins_accused",
                "perturbation_findings",
                "depth_law_findings"},
    .keys = 7,
    .run = run,
    .trained_states = "of the same models: seed 1, 300 steps of 4 sequences of 32, bf16",
};

}  // namespace plumb::experiments
