#include <algorithm>
#include <numeric>

#include "injectors/bug.hpp"
#include "number/outcome.hpp"

namespace plumb::injectors {
namespace {

int& field_of(Config& config, std::string_view setting) {
  return config.*setting_named(setting).field;
}

bool uneven(const Layout& layout, const Config& config) {
  const std::vector<Stage> stages = stages_of(layout, config);
  return std::ranges::adjacent_find(stages, [](const Stage& a, const Stage& b) {
           return a.last - a.first != b.last - b.first;
         }) != stages.end();
}

}  // namespace

void Needs::complete(Config& config) const {
  for (const Setting& needed : settings) {
    if (int& field = field_of(config, needed.name); field == 0) field = needed.number();
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
  if ((needed.tp > 1 && l.tp == 1) || (needed.dp > 1 && l.dp == 1) || (needed.sp && !l.sp) ||
      (needed.ep > 1 && l.ep == 1) || (needed.pp > 1 && l.pp == 1) ||
      (needed.cp > 1 && l.cp == 1) ||
      (needed.context == Context::ring && l.context != Context::ring) ||
      needed.recompute > l.recompute || needed.zero > l.zero ||
      (needed.overlap > 0 && l.overlap == 0) ||
      (needed.offload_activations && !l.offload_activations) ||
      (needed.offload_optimizer && !l.offload_optimizer)) {
    no("needs at least the layout " + std::string(bug.needs.layout) + "; this one is " +
       name_of(l));
  }
  if (!needed.stage_layers.empty() && !uneven(l, run.config)) {
    no("needs stages of unequal length, as in " + std::string(bug.needs.layout) +
       "; this layout is " + name_of(l));
  }
  Config config = run.config;
  for (const auto& [name, value] : bug.needs.settings) {
    if (field_of(config, name) > 0) continue;
    std::string option = "--" + std::string(name);
    std::ranges::replace(option, '_', '-');
    if (setting_named(name).unit != Size::Unit::flag) option.append(" ").append(value);
    no("needs " + std::string(name) + "; say " + option);
  }
  const Recipe recipe = find_recipe(std::string(bug.needs.recipe));
  if (recipe.wire == fp32 && recipe.compute == bf16 && !(run.recipe.wire == fp32)) {
    no("needs a recipe that promises an FP32 wire, such as " + recipe.id + "; say --recipe " +
       recipe.id);
  }
  if (recipe.operands && !run.recipe.operands) {
    no("needs a recipe with short operands, such as " + recipe.id + "; say --recipe " + recipe.id);
  }
  if (magnitude > 0 && bug.dose.empty()) no("has no dose; leave --dose out");
}

}  // namespace plumb::injectors
