// Does rounding explain every healthy run, whatever its family, recipe and layout? And how well do
// twins foretell how far it lies from the reference? Small models, random and trained weights; one
// row is one run.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>

#include "experiments/distance.hpp"
#include "experiments/experiment.hpp"
#include "experiments/small.hpp"
#include "model/plan/plan.hpp"
#include "model/plan/verify.hpp"
#include "number/philox.hpp"
#include "trace/boundaries.hpp"

namespace plumb::experiments {
namespace {

constexpr int seeds = 3;

// Every axis alone, and products of them; a family skips what it cannot be divided by.
constexpr const char* layouts =
    "tp2 tp2,sp tp4 tp4,sp dp2 dp2,tp2 dp2,tp2,sp dp2,tp4,sp pp2 pp4 pp2:3+1 pp2,vpp2 "
    "pp2,tp2 pp2,tp2,sp dp2,pp2 dp2,pp2,tp2,sp cp2 cp4 cp2:ulysses cp4:ulysses cp2,tp2 "
    "cp2,tp2,sp cp2:ulysses,tp2 dp2,cp2 dp2,cp2,tp2,sp cp2,pp2 cp2:ulysses,pp2,vpp2 "
    "cp4,tp2,sp dp2,zero1 dp2,zero2 dp2,zero3 dp2,tp2,zero1 dp2,tp2,sp,zero2 "
    "dp2,tp2,sp,zero3 dp2,pp2,zero1 dp2,cp2,zero3 tp2,recompute tp2,sp,recompute:uniform2 "
    "cp2,recompute:selective dp2,pp2,recompute dp2,tp2,cp2,pp2 "
    "dp2,tp2,cp2,pp2,sp,zero3,recompute dp2,ep2 dp2,tp2,ep2 dp2,tp2,sp,ep2 dp2,pp2,ep2 "
    "dp2,pp2,tp2,ep2 dp2,ep2,zero1 dp2,ep2,zero2 dp2,ep2,zero3 dp2,tp2,ep2,recompute "
    "dp2,pp2,vpp2,ep2 dp2,tp4,sp,ep2 dp2,pp2,tp2,sp,ep2,zero3,recompute cp2:ring cp4:ring "
    "cp2:ring,tp2,sp cp2:ring,pp2,recompute:selective dp2,cp4:ring,tp2,sp,zero3 dp2,cp2,ep2 "
    "dp2,cp4:ring,ep2 dp2,cp2:ulysses,ep2,zero3 dp2,cp2,tp2,sp,ep2 "
    "dp2,cp2:ring,pp2,tp2,sp,ep2,zero3,recompute";

struct Count {
  int accused = 0, undecided = 0, structure = 0;
  int unequal = 0, few = 0, forced = 0;
  std::size_t followed = 0;
  Foretold foretold;
  std::string first_accused;
};

// Tensor by tensor. Single numbers are left out, as in twin-spread; and tensors in which draws
// differ in fewer numbers than a norm can be foretold of: sums of short products over few tokens
// are often exact in FP32.
void foretell(const Graph& graph, const std::set<std::string>& differs, const Drawn& drawn,
              const Merged& c, Count& count) {
  for (const Node& node : graph.nodes) {
    if (!judged_by_twins(node)) continue;
    for (const std::string& id : node.outputs) {
      const Tensor& base = *drawn.reference.values.at(id);
      if (base.size() == 1) continue;
      const double observed = distance(*c.values.at(id), base).norm;
      if (!differs.contains(id)) {
        count.unequal += observed > 0 ? 1 : 0;
        continue;
      }
      double flips = 0;
      std::vector<double> norms;
      for (const Values& t : drawn.twins.value()) {
        const Distance d = distance(*t.at(id), base);
        norms.push_back(d.norm);
        flips += static_cast<double>(d.elements);
      }
      if (flips < fewest_flips * static_cast<double>(norms.size())) {
        ++count.few;
      } else {
        count.foretold.add(norms, observed);
      }
    }
  }
}

Start start_of_one(const std::string& family, const Recipe& recipe, const std::string& weights,
                   int seed, const Effort& effort) {
  Config config = small_model(family);
  config.seed = static_cast<std::uint64_t>(seed);
  return small_start(config, recipe, {}, weights, effort);
}

// One device, which all layouts are held against.
struct Alone {
  explicit Alone(Start of) : start(std::move(of)), run(start) {}

  Start start;
  ExecutedReference run;
};

// A run that was judged. Layouts that promise the same and make the same bits share the verdict:
// pipelines and ZeRO only move computations to other ranks.
struct Known {
  Graph graph;
  std::uint64_t bits;
  Count count;
};

std::uint64_t bits_of(const Values& values) {
  std::uint64_t bits = 0;
  for (const auto& [id, tensor] : values) {
    bits = key_of(bits, id);
    bits ^= std::hash<std::string_view>{}(
        {reinterpret_cast<const char*>(tensor->values.data()), tensor->size() * sizeof(float)});
  }
  return bits;
}

// By the shipped check.
Count judged(const Alone& one, const Trace& candidate, const Merged& c) {
  CheckOptions options;
  options.seed = one.start.run.config.seed;
  options.keeps_twins = true;
  const Judged seen = judge_runs(one.run.to_judge(), candidate, c, options);
  const Verdict& v = seen.verdicts.front();
  Count count;
  count.forced = static_cast<int>(v.forced);
  count.followed = v.flips;
  count.accused = v.findings.empty() ? 0 : 1;
  count.undecided = v.undecided.empty() ? 0 : 1;
  if (!v.findings.empty()) count.first_accused = v.findings.front().id;
  foretell(*candidate.graph, touched(*one.run.trace().graph, *candidate.graph), seen.drawn.value(),
           c, count);
  return count;
}

Count judge_run(const Alone& one, const std::string& layout, std::vector<Known>& known) {
  Start start = one.start;
  start.run.layout = parse_layout(layout);
  const Candidate candidate = run_candidate(start);
  const Merged c = merge_verified(candidate.trace);
  const Graph& graph = *candidate.trace.graph;
  const std::uint64_t bits = bits_of(c.values);
  auto same = std::ranges::find_if(
      known, [&](const Known& k) { return k.bits == bits && touched(k.graph, graph).empty(); });
  if (same == known.end()) {
    same = known.insert(known.end(), {graph, bits, judged(one, candidate.trace, c)});
  }
  Count count = same->count;
  count.structure = c.findings.empty() ? 0 : 1;
  return count;
}

void add(Table& rows, const std::vector<std::string>& key, const Count& count) {
  std::vector<std::string> row = key;
  const Foretold& seen = count.foretold;
  for (const int x : {count.accused, count.undecided, count.structure, count.unequal, count.few,
                      count.forced, static_cast<int>(count.followed), seen.tensors}) {
    row.push_back(std::to_string(x));
  }
  for (const double x : {seen.near_share(), seen.within_share(), seen.others_share()}) {
    row.push_back(cell(x));
  }
  row.push_back(count.first_accused.empty() ? "-" : count.first_accused);
  rows.add(row);
}

// ep asks for experts, and a degree may not divide what the family has.
bool fits(const std::string& layout, const std::string& family, const Recipe& recipe) {
  static std::map<std::vector<std::string>, bool> known;  // seeds and weights share the answer
  const auto [answer, is_new] = known.emplace(std::vector{layout, family, recipe.id}, true);
  if (!is_new) return answer->second;
  try {
    plan(small_model(family), recipe, parse_layout(layout));
  } catch (const Failure&) {
    answer->second = false;
  }
  return answer->second;
}

void every_layout(Table& rows, const Effort& effort, const std::string& family,
                  const Recipe& recipe, const std::string& weights, int seed) {
  std::optional<Alone> reference;  // all layouts share it
  std::vector<Known> known;
  std::istringstream all(layouts);
  for (std::string layout; all >> layout;) {
    if (effort.out_of_time()) return;
    const std::vector<std::string> key{family, recipe.id, weights, layout, std::to_string(seed)};
    if (!fits(layout, family, recipe) || rows.settled(key)) continue;
    if (!reference) {
      reference.emplace(start_of_one(family, recipe, weights, seed, effort));
    }
    const Count count = judge_run(*reference, layout, known);
    add(rows, key, count);
    effort.progress(family + " " + recipe.id + " " + weights + " " + layout + " seed " + key[4] +
                    (count.accused > 0 ? ": accused" : ": acquitted"));
  }
}

void run(Table& rows, const Effort& effort) {
  for (int seed = 1; seed <= seeds * effort.scale; ++seed) {
    for (const Recipe& recipe : all_recipes()) {
      for (const char* family : {"gpt", "llama", "gpt-moe", "llama-moe"}) {
        for (const char* weights : {"trained", "random"}) {
          every_layout(rows, effort, family, recipe, weights, seed);
        }
      }
    }
  }
}

}  // namespace

extern const Experiment healthy_layouts{
    .name = "healthy-layouts",
    .question =
        "Is any healthy run accused, in any layout, recipe and family, and how well do "
        "K = 4 twins predict its distance?",
    .columns = {"family", "recipe", "weights", "layout", "seed", "accused", "undecided",
                "structure", "untouched_but_unequal", "tensors_of_few_flips",
                "tokens_with_forced_experts", "followed_flips", "tensors", "share_in_0.8_1.25",
                "share_in_0.5_2", "draw_against_other_draws", "first_accused"},
    .keys = 5,
    .run = run,
    .trained_states = trained_small_states,
};

}  // namespace plumb::experiments
