#include "cli/known.hpp"

#include <array>

#include "bounds/examples/shaped.hpp"
#include "bounds/machine.hpp"
#include "bounds/operation.hpp"
#include "experiments/experiment.hpp"
#include "injectors/bug.hpp"
#include "kernels/backend.hpp"
#include "model/estimate/bubbles.hpp"
#include "model/spec/recipe_product.hpp"
#include "trace/rules.hpp"

namespace plumb::cli {
namespace {

using Names = std::vector<std::string>;

template <class All, class Name>
Names named(const All& all, Name name) {
  Names names;
  for (const auto& each : all) names.emplace_back(name(each));
  return names;
}

Names bugs() {
  return named(all_bugs(), [](const Bug* bug) { return bug->id; });
}
Names recipes() {
  return named(all_recipes(), [](const Recipe& recipe) { return recipe.id; });
}
Names machines() {
  return named(all_machines(), [](const Machine& machine) { return machine.id; });
}
Names experiments() {
  return named(all_experiments(), [](const Experiment* e) { return e->name; });
}
Names backends() {
  return named(all_backends(), [](const Backend* backend) { return backend->name; });
}
Names formats() {
  Names names = named(all_formats, [](const Format& format) { return format.name; });
  std::erase(names, std::string(fp64.name));
  return names;
}
Names families() { return {"gpt", "llama", "gpt-moe", "llama-moe"}; }
Names products() {
  return named(std::array{Product::fprop, Product::dgrad, Product::wgrad},
               [](Product product) { return name_of(product); });
}
Names grains() {
  return named(std::array{Grain::operation, Grain::layer, Grain::micro_batch},
               [](Grain grain) { return name_of(grain); });
}
Names worlds() { return {"threads", "mpi", "nccl"}; }
// Moments are no bound: only `plumb bound` and `plumb judge` have them.
Names modes(bool with_moments) {
  Names names = named(std::array{Mode::deterministic, Mode::probabilistic},
                      [](Mode mode) { return name_of(mode); });
  if (with_moments) names.emplace_back(name_of(Mode::moments));
  return names;
}
Names verbs_below(const CLI::App& app) {
  return named(verbs_of(app), [](const CLI::App* verb) { return verb->get_name(); });
}

struct Catalogue {
  const char* option;
  Names (*values)();
};

constexpr std::array catalogues{
    Catalogue{"--bug", bugs},
    Catalogue{"BUG", bugs},
    Catalogue{"ID", bugs},
    Catalogue{"--recipe", recipes},
    Catalogue{"A", recipes},
    Catalogue{"B", recipes},
    Catalogue{"--machine", machines},
    Catalogue{"MACHINE", machines},
    Catalogue{"SUBJECT", backends},
    Catalogue{"--format", formats},
    Catalogue{"--product", products},
    Catalogue{"--piece", grains},
    Catalogue{"OP", shaped_operations},
    Catalogue{"EXPERIMENT", experiments},
    Catalogue{"--family", families},
    Catalogue{"--families", families},
    Catalogue{"--backend", backends},
    Catalogue{"--world", worlds},
};

}  // namespace

std::vector<std::string> known_values(const CLI::App& verb, const CLI::Option& option) {
  const std::string name = names_of(option).front();
  if (name == "--rule") return all_rules();
  if (name == "--mode") return modes(verb.get_name() == "bound" || verb.get_name() == "judge");
  if (name == "VERB") return verbs_below(*verb.get_parent());
  if (name == "SHELL") return {"bash"};
  for (const auto& [of, values] : catalogues) {
    if (name == of) return values();
  }
  return {};
}

std::vector<std::string> names_of(const CLI::Option& option) {
  if (option.get_positional()) return {option.get_name(true)};
  Names names;
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  return names;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::vector<const CLI::Option*> arguments_of(const CLI::App& verb) {
  return verb.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

}  // namespace plumb::cli
