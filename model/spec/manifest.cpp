#include "model/spec/manifest.hpp"

#include "number/outcome.hpp"

namespace plumb::model {

Manifest manifest_of(const Training& run) {
  Manifest manifest;
  manifest.world_size = run.layout.world_size();
  manifest.step = run.step;
  manifest.settings = settings_of(run.config);
  manifest.settings["recipe"] = run.recipe.id;
  if (!run.recipe.card.empty()) manifest.settings["recipe_card"] = run.recipe.card;
  manifest.settings["layout"] = name_of(run.layout);
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
  return {config_from(manifest.settings), recipe, parse_layout(setting("layout")), manifest.step};
}

}  // namespace plumb::model
