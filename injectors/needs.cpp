#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "injectors/bug.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"

namespace plumb::injectors {
namespace {

int& field_of(Config& config, std::string_view setting) {
  return config.*setting_named(setting).field;
}

// One that may be 0 is lacking where it is, another where it is more than is needed.
bool is_lacking(const Config& config, const Setting& needed) {
  const int has = config.*setting_named(needed.name).field;
  return setting_named(needed.name).least > 0 ? has > needed.number() : has == 0;
}

bool uneven(const Layout& layout, const Config& config) {
  const std::vector<Stage> stages = stages_of(layout, config);
  return std::ranges::adjacent_find(stages, [](const Stage& a, const Stage& b) {
           return a.last - a.first != b.last - b.first;
         }) != stages.end();
}

bool has_at_least(const Layout& l, const Layout& needed) {
  const auto along = [&](int Layout::*axis) { return l.*axis >= needed.*axis; };
  return along(&Layout::tp) && along(&Layout::dp) && along(&Layout::pp) && along(&Layout::vpp) &&
         along(&Layout::cp) && along(&Layout::ep) && along(&Layout::zero) &&
         along(&Layout::recompute) && along(&Layout::runs) && along(&Layout::predivide) &&
         (l.split || !needed.split) && (l.whole_experts || !needed.whole_experts) &&
         (l.sp || !needed.sp) && (l.padded || !needed.padded) &&
         (l.overlap > 0 || needed.overlap == 0) &&
         (l.offload_activations || !needed.offload_activations) &&
         (l.offload_optimizer || !needed.offload_optimizer);
}

bool is_delayed(const Recipe& recipe) {
  return recipe.operands && recipe.operands->activations.scaling == Scaling::delayed;
}

// Does the card say how contexts see each other, as in cp2:ring?
bool says_context(std::string_view layout) {
  const std::size_t cp = layout.find("cp");
  return cp != layout.npos && layout.find(':', cp) < layout.find(',', cp);
}

// "2 micro-batches", where a run has fewer than a card needs.
void refuse_fewer(const Needs& needs, const Training& run,
                  const std::function<void(const std::string&)>& no) {
  const int here = run.config.micro_batches / run.layout.dp;
  if (here < needs.micro_batches) {
    no("needs " +
       how_many(static_cast<std::size_t>(needs.micro_batches), "micro-batch", "micro-batches") +
       " on each rank; say --micro-batches " + std::to_string(needs.micro_batches * run.layout.dp));
  }
  if (run.config.sequences < needs.sequences) {
    no("needs " + std::to_string(needs.sequences) +
       " sequences in a micro-batch; say --sequences " + std::to_string(needs.sequences));
  }
}

}  // namespace

void Needs::complete(Config& config) const {
  for (const Setting& needed : settings) {
    if (is_lacking(config, needed)) field_of(config, needed.name) = needed.number();
  }
  const std::vector<int> stages = parse_layout(std::string(layout)).stage_layers;
  if (!stages.empty()) config.layers = std::accumulate(stages.begin(), stages.end(), 0);
}

void refuse_unmet(const Bug& bug, const Training& run, double magnitude) {
  const auto no = [&](const std::string& what) { throw Failure(std::string(bug.id) + " " + what); };
  const auto& families = bug.needs.families;
  if (std::ranges::find(families, run.config.family) == families.end()) {
    const std::string family = bug.needs.family(families.front());
    no("needs the family " + family + "; say --family " + family);
  }
  if (bug.needs.experts && run.config.experts == 0) {
    no("needs a mixture of experts; say --family " + family_of(run.config) + "-moe");
  }
  const Layout needed = parse_layout(std::string(bug.needs.layout));
  const Layout& l = run.layout;
  if (!has_at_least(l, needed) || (says_context(bug.needs.layout) && l.context != needed.context)) {
    no("needs at least the layout " + std::string(bug.needs.layout) + "; this one is " +
       name_of(l));
  }
  if (!needed.stage_layers.empty() && !uneven(l, run.config)) {
    no("needs stages of unequal length, as in " + std::string(bug.needs.layout) +
       "; this layout is " + name_of(l));
  }
  for (const auto& [name, value] : bug.needs.settings) {
    if (!is_lacking(run.config, {name, value})) continue;
    std::string option = "--" + std::string(name);
    std::ranges::replace(option, '_', '-');
    if (setting_named(name).unit != Size::Unit::flag) option.append(" ").append(value);
    no("needs " + std::string(name) + "; say " + option);
  }
  refuse_fewer(bug.needs, run, no);
  const Recipe recipe = find_recipe(std::string(bug.needs.recipe));
  if (recipe.wire == fp32 && recipe.compute == bf16 && !(run.recipe.wire == fp32)) {
    no("needs a recipe that promises an FP32 wire, such as " + recipe.id + "; say --recipe " +
       recipe.id);
  }
  if (!(recipe.stream == recipe.compute) && run.recipe.stream == run.recipe.compute) {
    no("needs a recipe whose residual stream is wider than its activations, such as " + recipe.id +
       "; say --recipe " + recipe.id);
  }
  if (recipe.operands && !run.recipe.operands) {
    no("needs a recipe with short operands, such as " + recipe.id + "; say --recipe " + recipe.id);
  }
  if (is_delayed(recipe) && !is_delayed(run.recipe)) {
    no("needs a recipe whose scales come from histories, such as " + recipe.id + "; say --recipe " +
       recipe.id);
  }
  if (magnitude > 0 && bug.dose.empty()) no("has no dose; leave --dose out");
  if (magnitude > bug.largest_dose) {
    no(fmt::format("takes a --dose of at most {}: {}", bug.largest_dose, bug.dose));
  }
}

}  // namespace plumb::injectors
