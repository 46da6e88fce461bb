#include "model/spec/manifest.hpp"

#include "number/outcome.hpp"

namespace plumb::model {

std::string_view name_of(Rewriting how) {
  return how == Rewriting::generated   ? "generated"
         : how == Rewriting::reference ? "reference"
                                       : "none";
}

Rewriting rewriting_from(const std::string& word) {
  for (const Rewriting how : {Rewriting::none, Rewriting::generated, Rewriting::reference}) {
    if (word == name_of(how)) return how;
  }
  throw Failure("a run is rewritten by tensors that are generated or of the reference, not by '" +
                word + "'; say generated or reference");
}

Manifest manifest_of(const Training& run) {
  Manifest manifest;
  manifest.world_size = run.layout.world_size();
  manifest.step = run.step;
  manifest.settings = settings_of(run.config);
  manifest.settings["recipe"] = run.recipe.id;
  if (!run.recipe.card.empty()) manifest.settings["recipe_card"] = run.recipe.card;
  manifest.settings["layout"] = name_of(run.layout);
  if (run.rewriting != Rewriting::none) manifest.settings["rewrite"] = name_of(run.rewriting);
  return manifest;
}

Training run_from(const Manifest& manifest) {
  const auto setting = [&](const char* key) {
    const auto found = manifest.settings.find(key);
    if (found == manifest.settings.end()) {
      throw Failure(std::string("the manifest does not say its ") + key + "; trace again");
    }
    return found->second;
  };
  const Recipe recipe = manifest.settings.contains("recipe_card")
                            ? recipe_from_json(setting("recipe_card"), "the recipe in the manifest")
                            : find_recipe(setting("recipe"));
  Training run{config_from(manifest.settings), recipe, parse_layout(setting("layout")),
               manifest.step};
  if (manifest.settings.contains("rewrite")) run.rewriting = rewriting_from(setting("rewrite"));
  return run;
}

}  // namespace plumb::model
